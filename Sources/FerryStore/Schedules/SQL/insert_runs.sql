-- Inserts the jobs of runs: which occurrences are submitted, and as which jobs.
-- Locks: the new rows (waits for a transaction that inserts the same one).
-- One array element a job: $1 schedules, $2 occurrences, $3 jobs, $4 places in the schedule's list. Returns
-- the jobs that were not submitted before.
INSERT INTO schedule_runs (schedule, scheduled_at, job, place)
SELECT * FROM unnest($1::uuid[], $2::timestamptz[], $3::uuid[], $4::integer[])
    AS u(schedule, scheduled_at, job, place)
ON CONFLICT DO NOTHING
RETURNING job
