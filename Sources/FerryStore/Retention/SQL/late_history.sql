-- Reads the jobs of a partition that have ended since $2. Locks nothing. $1 partition, $2 end of the
-- retention, $3 maximum number of jobs.
SELECT late_finished_jobs($1::text, $2::timestamptz, $3::integer)
