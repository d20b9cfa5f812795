-- Removes jobs of runs that are deleted, for one range of jobs. Locks: the removed rows.
-- $1 lower bound of job ids (exclusive), $2 maximum number of rows to look at. Returns the last job of the
-- range; null if it was the last range.
WITH looked AS (
    SELECT schedule, scheduled_at, place, job
    FROM schedule_runs WHERE job > $1::uuid ORDER BY job LIMIT $2::integer
), removed AS (
    DELETE FROM schedule_runs r USING looked l
    WHERE r.schedule = l.schedule AND r.scheduled_at = l.scheduled_at AND r.place = l.place
        -- A union is no join, whose order would depend on statistics.
        AND NOT EXISTS (
            SELECT FROM jobs j WHERE j.id = l.job
            UNION ALL
            SELECT FROM finished_jobs f WHERE f.id = l.job)
)
SELECT CASE WHEN count(*) = $2::integer THEN (array_agg(job ORDER BY job DESC))[1] END FROM looked
