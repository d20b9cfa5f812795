-- Asks for the cancellation of a job that a node runs, and tells the nodes. Locks: the job.
-- $1 id, $2 revision. Returns the id; no row: it has changed meanwhile.
WITH changed AS (
    UPDATE jobs SET cancel_requested = true
    WHERE id = $1::uuid AND revision = $2::integer AND state = 'running'
    RETURNING id
)
SELECT id, pg_notify('ferry', 'cancel:' || id::text) FROM changed
