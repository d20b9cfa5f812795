-- Forgets runs whose job is deleted, a stretch at a time. Locks: those rows. $1 only jobs above this one, $2
-- how many at most. Returns the last job of the stretch; null: it was the last stretch.
WITH looked AS (
    SELECT schedule, scheduled_at, job FROM schedule_runs WHERE job > $1::uuid ORDER BY job LIMIT $2::integer
), removed AS (
    DELETE FROM schedule_runs r USING looked l
    WHERE r.schedule = l.schedule AND r.scheduled_at = l.scheduled_at
        AND NOT EXISTS (SELECT FROM jobs j WHERE j.id = l.job)
        AND NOT EXISTS (SELECT FROM finished_jobs f WHERE f.id = l.job)
)
SELECT CASE WHEN count(*) = $2::integer THEN (array_agg(job ORDER BY job DESC))[1] END FROM looked
