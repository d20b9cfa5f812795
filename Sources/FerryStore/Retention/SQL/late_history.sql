-- Reads the jobs of a partition that ended since $2, so many as $3 at most. Locks nothing. $1 the partition.
SELECT late_finished_jobs($1::text, $2::timestamptz, $3::integer)
