-- Moves the first queued jobs of wide lots to narrow ones, where something limits their origin or their
-- session. Costs no attempt. A lot that is not there yet is made, and its jobs follow with the next call.
-- Locks: the queued rows that nobody else has locked, then the lots. $1 wide lots, $2 whether their session
-- is limited, $3 how many rows of each are looked at. Returns the wide lot, then number (null: it was made),
-- tenant, session, origin and node of the narrow one, and the first urgency.
WITH met AS (
    SELECT w.lot, w.is_limited, j.id, j.tenant, j.session, j.origin, j.urgency,
        coalesce(j.home::text, '') AS home
    FROM unnest($1::bigint[], $2::boolean[]) AS w(lot, is_limited) CROSS JOIN LATERAL (
        SELECT id, tenant, session, origin, urgency, home FROM jobs
        WHERE state = 'queued' AND lot = w.lot
        ORDER BY urgency, id LIMIT $3::integer
        FOR UPDATE SKIP LOCKED) j
), limited AS MATERIALIZED (
    SELECT m.*, l.id AS narrow FROM met m LEFT JOIN LATERAL (
        SELECT l.id FROM lots l
        WHERE l.tenant = m.tenant AND l.session = m.session AND l.origin = m.origin AND l.home = m.home
        FOR KEY SHARE) l ON true
    WHERE m.is_limited OR (
        SELECT h.connection_limit IS NOT NULL OR h.request_rate IS NOT NULL OR h.blocked_until > now()
        FROM hosts h WHERE h.origin = m.origin)
), made AS (
    INSERT INTO lots (id, tenant, session, origin, home)
    SELECT -nextval('lot_numbers'), w.tenant, w.session, w.origin, w.home FROM (
        SELECT DISTINCT tenant, session, origin, home FROM limited WHERE narrow IS NULL
        ORDER BY tenant, session, origin, home) AS w
    ON CONFLICT (tenant, session, origin, home) DO NOTHING
), moved AS (
    UPDATE jobs j SET lot = l.narrow FROM limited l
    WHERE l.narrow IS NOT NULL AND j.id = ANY (ARRAY[l.id])
)
SELECT lot, narrow, tenant, session, origin, nullif(home, '')::uuid, min(urgency)
FROM limited GROUP BY lot, narrow, tenant, session, origin, home
