-- Requests the suspension of a running job and notifies the nodes. Locks: the job.
-- $1 id, $2 expected revision. Returns the id; no row if the job has changed meanwhile.
WITH changed AS (
    UPDATE jobs SET suspend_requested = true
    WHERE id = $1::uuid AND revision = $2::integer AND state = 'running' AND NOT cancel_requested
    RETURNING id
)
SELECT id, pg_notify('ferry', 'suspend:' || id::text) FROM changed
