-- Lets the upload of a deleted job be removed now: no other job may continue it any more. Locks: its row.
-- $1 the job.
WITH released AS (
    UPDATE abandoned_uploads SET due_at = now(), ends_at = now() + interval '1 day'
    WHERE job = $1::uuid AND due_at > now() AND tries = 0
    RETURNING job
)
SELECT pg_notify('ferry', 'abandoned_uploads') FROM released
