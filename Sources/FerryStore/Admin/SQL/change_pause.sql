-- Pauses the service or lets it go on, and tells the nodes. Locks: the row of operations. $1 whether it is
-- paused. Returns nothing.
WITH changed AS (
    UPDATE operations SET paused = $1::boolean, revision = revision + 1 WHERE paused <> $1::boolean
    RETURNING revision
)
SELECT pg_notify('ferry', 'operations') FROM changed
