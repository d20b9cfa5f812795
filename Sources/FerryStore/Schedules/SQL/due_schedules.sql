-- Reads due schedules. Locks: the returned rows; skips rows that another transaction has locked.
-- $1 maximum number of schedules, $2 now. Columns 0 to 19 as in read_schedule.sql, then whether jobs of
-- earlier occurrences matter.
SELECT s.id, s.tenant, s.revision, s.created_at, s.updated_at, s.definition, s.spec, s.next_scheduled_at,
    s.next_run_at, s.last_scheduled_at, s.last_run_at, s.last_job, s.run_count, s.missed_count,
    s.skipped_count, s.secrets, s.payload, s.is_held,
    s.last_skipped_at, s.skip_reason, s.watches_jobs
FROM schedules s
WHERE s.next_run_at <= $2::timestamptz
ORDER BY s.next_run_at LIMIT $1::integer
FOR UPDATE OF s SKIP LOCKED
