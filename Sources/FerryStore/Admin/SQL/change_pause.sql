-- Pauses or resumes the service, and notifies the nodes if that changes it. Locks: the row of operations. $1
-- whether it is paused.
WITH changed AS (
    UPDATE operations SET paused = $1::boolean, revision = revision + 1 WHERE paused <> $1::boolean
    RETURNING revision
)
SELECT pg_notify('ferry', 'operations') FROM changed
