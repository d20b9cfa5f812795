-- Inserts runs: which occurrences are submitted, and as which jobs.
-- Locks: the new rows (waits for a transaction that inserts the same one).
-- One array element a run: $1 schedules, $2 occurrences, $3 jobs. Returns the jobs of occurrences that were
-- not submitted before.
INSERT INTO schedule_runs (schedule, scheduled_at, job)
SELECT * FROM unnest($1::uuid[], $2::timestamptz[], $3::uuid[]) AS u(schedule, scheduled_at, job)
ON CONFLICT DO NOTHING
RETURNING job
