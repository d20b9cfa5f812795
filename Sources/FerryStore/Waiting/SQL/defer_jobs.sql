-- Changes jobs that wait for their begin date into discretionary jobs: the service chooses when they begin,
-- and the begin date becomes the latest start.
-- Locks: the jobs. Joined as in finish_jobs.sql.
-- One array element a job: $1 ids, $2 earliest start, $3 expected bytes or null.
UPDATE jobs j SET
    waiting_for = 'discretionary', discretionary_from = u.may_start, discretionary_bytes = u.bytes
FROM unnest($1::uuid[], $2::timestamptz[], $3::bigint[]) AS u(id, may_start, bytes)
WHERE j.id = ANY (ARRAY[u.id]) AND j.state = 'waiting' AND j.waiting_for IN ('begin_date', 'discretionary')
