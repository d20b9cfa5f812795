-- Takes narrow lots and their hosts for this transaction, so that nobody else can claim from them; those that
-- somebody has are left out, and of each origin all but the first that is asked for. Lots of one session and
-- origin, each for another node, are counted together: the oldest of them stands for all. A statement of its
-- own: read_permits.sql has to see what whoever had them has committed. Locks: their rows. $1 lots.
WITH asked AS MATERIALIZED (
    SELECT l.id, l.origin, u.place, (
        -- An expression: the names lead there, and no index of numbers.
        SELECT max(s.id + 0) FROM lots s
        WHERE s.tenant = l.tenant AND s.session = l.session AND s.origin = l.origin) AS eldest
    FROM unnest($1::bigint[]) WITH ORDINALITY AS u(lot, place) JOIN lots l ON l.id = ANY (ARRAY[u.lot])
), lot AS MATERIALIZED (
    SELECT l.id, l.origin FROM lots l WHERE l.id = ANY (ARRAY(SELECT eldest FROM asked)) ORDER BY l.id
    FOR NO KEY UPDATE SKIP LOCKED
), host AS MATERIALIZED (
    SELECT h.origin FROM hosts h WHERE h.origin = ANY (ARRAY(SELECT origin FROM lot)) ORDER BY h.origin
    FOR NO KEY UPDATE SKIP LOCKED
), free AS (
    SELECT DISTINCT ON (a.origin) a.id FROM asked a JOIN lot l ON l.id = a.eldest
    WHERE a.origin IN (SELECT origin FROM host)
        OR (SELECT h.origin FROM hosts h WHERE h.origin = a.origin) IS NULL
    ORDER BY a.origin, a.place
)
SELECT set_config('ferry.lots', coalesce(string_agg(id::text, ','), ''), true) FROM free
