-- Pauses or resumes the service, and notifies the nodes if that changes it. Locks: the row of operations. $1
-- whether it is paused, $2 whether a pause also holds deliveries, schedules and probes.
-- A hold lasts until the service is resumed.
WITH changed AS (
    UPDATE operations SET paused = $1::boolean, held = $1::boolean AND (held OR $2::boolean),
        revision = revision + 1
    WHERE paused <> $1::boolean OR $1::boolean AND $2::boolean AND NOT held
    RETURNING revision
)
SELECT pg_notify('ferry', 'operations') FROM changed
