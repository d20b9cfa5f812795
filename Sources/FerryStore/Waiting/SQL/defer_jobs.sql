-- Makes jobs that wait for their begin date wait for a good moment instead, and says from when; that date is
-- their latest start.
-- Locks: the jobs. One array element a job: $1 ids, $2 from when they may start, $3 bytes that they expect or
-- null. Joined as finish_jobs.sql.
UPDATE jobs j SET
    waiting_for = 'discretionary', discretionary_from = u.may_start, discretionary_bytes = u.bytes
FROM unnest($1::uuid[], $2::timestamptz[], $3::bigint[]) AS u(id, may_start, bytes)
WHERE j.id = ANY (ARRAY[u.id]) AND j.state = 'waiting' AND j.waiting_for IN ('begin_date', 'discretionary')
