-- Takes narrow lots and their hosts for this transaction, so that nobody else can claim from them; those that
-- somebody has are left out, and of each origin all but one. A statement of its own: read_permits.sql has to
-- see what whoever had them has committed. Locks: their rows. $1 lots.
WITH lot AS MATERIALIZED (
    SELECT l.id, l.origin FROM lots l WHERE l.id = ANY ($1::bigint[]) ORDER BY l.id
    FOR NO KEY UPDATE SKIP LOCKED
), host AS MATERIALIZED (
    SELECT h.origin FROM hosts h WHERE h.origin = ANY (ARRAY(SELECT origin FROM lot)) ORDER BY h.origin
    FOR NO KEY UPDATE SKIP LOCKED
), free AS (
    SELECT DISTINCT ON (l.origin) l.id FROM lot l
    WHERE l.origin IN (SELECT origin FROM host)
        OR (SELECT h.origin FROM hosts h WHERE h.origin = l.origin) IS NULL
    ORDER BY l.origin, l.id
)
SELECT set_config('ferry.lots', coalesce(string_agg(id::text, ','), ''), true) FROM free
