-- Reads schedules whose time has come, with the jobs of earlier occurrences that are not over where they
-- matter. Locks: due rows that nobody else has locked. $1 how many at most, $2 now, $3 how many runs of each
-- are looked at. Columns 0 to 17 as in read_schedule.sql.
SELECT s.id, s.tenant, s.revision, s.created_at, s.updated_at, s.definition, s.spec, s.next_scheduled_at,
    s.next_run_at, s.last_scheduled_at, s.last_run_at, s.last_job, s.run_count, s.missed_count,
    s.skipped_count, s.secrets, s.payload, s.is_held,
    CASE WHEN s.watches_jobs THEN ARRAY(
        SELECT j.id FROM (
            SELECT r.job FROM schedule_runs r WHERE r.schedule = s.id
            ORDER BY r.scheduled_at DESC LIMIT $3::integer
        ) r JOIN jobs j ON j.id = r.job
    ) ELSE '{}'::uuid[] END
FROM schedules s
WHERE s.next_run_at <= $2::timestamptz
ORDER BY s.next_run_at LIMIT $1::integer
FOR UPDATE OF s SKIP LOCKED
