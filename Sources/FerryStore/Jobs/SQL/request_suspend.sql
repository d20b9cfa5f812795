-- Asks for the suspension of a job that a node runs, and tells the nodes. Locks: the job.
-- $1 id, $2 revision. Returns the id; no row: it has changed meanwhile.
WITH changed AS (
    UPDATE jobs SET suspend_requested = true
    WHERE id = $1::uuid AND revision = $2::integer AND state = 'running' AND NOT cancel_requested
    RETURNING id
)
SELECT id, pg_notify('ferry', 'suspend:' || id::text) FROM changed
