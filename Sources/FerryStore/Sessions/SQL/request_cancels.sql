-- Requests the cancellation of running jobs and notifies the nodes. Locks: the jobs.
-- $1 ids. Returns the ids of the jobs that still run.
WITH changed AS (
    UPDATE jobs SET cancel_requested = true
    WHERE id = ANY ($1::uuid[]) AND state = 'running' AND NOT cancel_requested
    RETURNING id
)
SELECT id, pg_notify('ferry', 'cancel:' || id::text) FROM changed
