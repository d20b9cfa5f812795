-- Requests the cancellation of a running job and notifies the nodes. Locks: the job.
-- $1 id, $2 expected revision, $3 whether to keep its bytes. Returns the id; no row if the job has changed
-- meanwhile.
WITH changed AS (
    UPDATE jobs SET cancel_requested = true, keeps_bytes = keeps_bytes OR $3::boolean
    WHERE id = $1::uuid AND revision = $2::integer AND state = 'running'
    RETURNING id
)
SELECT id, pg_notify('ferry', CASE WHEN $3::boolean THEN 'keep:' ELSE 'cancel:' END || id::text) FROM changed
