-- What one node alone can do (`jobs.home`) queues in lots of that node, so that the claims of others never
-- meet it.

-- That node as text; empty: any.
ALTER TABLE lots ADD COLUMN home text NOT NULL DEFAULT '';
ALTER TABLE lots DROP CONSTRAINT lots_name_is_unique;
ALTER TABLE lots ADD CONSTRAINT lots_name_is_unique UNIQUE (tenant, session, origin, home);
WITH made AS (
    INSERT INTO lots AS l (id, tenant, session, origin, home)
    SELECT CASE WHEN u.origin = '' THEN nextval('lot_numbers') ELSE -nextval('lot_numbers') END, u.tenant,
        u.session, u.origin, u.home
    FROM (
        SELECT DISTINCT tenant, session, CASE WHEN lot < 0 THEN origin ELSE '' END AS origin,
            home::text AS home
        FROM jobs WHERE home IS NOT NULL
    ) AS u
    RETURNING id, tenant, session, origin, home
)
UPDATE jobs j SET lot = m.id FROM made m
WHERE j.home IS NOT NULL AND m.tenant = j.tenant AND m.session = j.session AND m.home = j.home::text
    AND m.origin = CASE WHEN j.lot < 0 THEN j.origin ELSE '' END;

-- What counts against the limits of a narrow lot: all lots of its session and origin together, whatever node
-- they are for.
CREATE VIEW narrow_lots AS
SELECT l.id AS lot, l.tenant, l.session, l.origin, l.home, h.connection_limit,
    CASE WHEN h.blocked_until > now() THEN h.blocked_until END AS blocked_until,
    -- Connections of the session to the origin, and of everybody.
    (SELECT count(*) FROM jobs r
        WHERE r.state = 'running' AND r.lot < 0 AND r.origin = l.origin AND r.lot = ANY (ARRAY(
            SELECT s.id FROM lots s
            WHERE s.tenant = l.tenant AND s.session = l.session AND s.origin = l.origin)))
        + (SELECT coalesce(sum(o.count), 0) FROM open_connections o
            WHERE o.origin = l.origin AND o.tenant = l.tenant AND o.session = l.session) AS session_count,
    (SELECT count(*) FROM jobs r WHERE r.state = 'running' AND r.lot < 0 AND r.origin = l.origin)
        + (SELECT coalesce(sum(o.count), 0) FROM open_connections o WHERE o.origin = l.origin) AS host_count
FROM lots l LEFT JOIN hosts h ON h.origin = ANY (ARRAY[l.origin]);
