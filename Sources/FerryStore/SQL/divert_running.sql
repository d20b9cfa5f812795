-- Moves what a node runs to narrow lots where something limits it, so that it is counted: it began before the
-- limit was known here. Lots as in divert_jobs.sql. Locks: those rows, then the lots. $1 the node, $2
-- wide lots whose session is limited. Returns how many are left for the next call.
WITH limited AS MATERIALIZED (
    SELECT j.id, j.tenant, j.session, j.origin, l.id AS narrow
    FROM (
        SELECT j.id, j.tenant, j.session, j.origin FROM jobs j
        WHERE j.state = 'running' AND j.node = $1::uuid AND j.lot > 0 AND (
            j.lot = ANY ($2::bigint[])
            OR (SELECT h.connection_limit IS NOT NULL FROM hosts h WHERE h.origin = j.origin))
        FOR UPDATE SKIP LOCKED) j
    LEFT JOIN LATERAL (
        SELECT l.id FROM lots l
        WHERE l.tenant = j.tenant AND l.session = j.session AND l.origin = j.origin
        FOR KEY SHARE) l ON true
), made AS (
    INSERT INTO lots (id, tenant, session, origin)
    SELECT -nextval('lot_numbers'), w.tenant, w.session, w.origin FROM (
        SELECT DISTINCT tenant, session, origin FROM limited WHERE narrow IS NULL
        ORDER BY tenant, session, origin) AS w
    ON CONFLICT (tenant, session, origin) DO NOTHING
), moved AS (
    UPDATE jobs j SET lot = l.narrow FROM limited l
    WHERE l.narrow IS NOT NULL AND j.id = ANY (ARRAY[l.id])
)
SELECT count(*) FILTER (WHERE narrow IS NULL) FROM limited
