-- Grants connections to attempts at the origins of narrow lots that lock_lots.sql has taken, as far as their
-- limits have room, and to nobody while jobs of the lot queue: those go first. Locks: the rows of the
-- attempts. $1 lots, $2 of each the connections per host of its session, or null; one array element an ask:
-- $3 lots, $4 jobs, $5 attempts. Returns the asks of those lots, in no order, by their place from 1, and
-- whether each was granted.
WITH permits AS MATERIALIZED (
    SELECT a.lot, l.tenant, l.session, l.origin,
        CASE
            WHEN h.blocked_until > now() OR (
                SELECT true FROM jobs q WHERE q.state = 'queued' AND q.lot = a.lot LIMIT 1) THEN 0
            ELSE coalesce(least(
                CASE WHEN a.session_limit IS NOT NULL THEN a.session_limit - (
                    SELECT count(*) FROM jobs r
                    WHERE r.state = 'running' AND r.lot < 0 AND r.origin = l.origin AND r.lot = l.id) - (
                    SELECT coalesce(sum(o.count), 0) FROM open_connections o
                    WHERE o.origin = l.origin AND o.tenant = l.tenant AND o.session = l.session) END,
                CASE WHEN h.connection_limit IS NOT NULL THEN h.connection_limit - (
                    SELECT count(*) FROM jobs r
                    WHERE r.state = 'running' AND r.lot < 0 AND r.origin = l.origin) - (
                    SELECT coalesce(sum(o.count), 0) FROM open_connections o
                    WHERE o.origin = l.origin) END), 1000000)
        END AS count
    FROM unnest($1::bigint[], $2::integer[]) AS a(lot, session_limit)
        JOIN lots l ON l.id = ANY (ARRAY[a.lot])
        LEFT JOIN hosts h ON h.origin = ANY (ARRAY[l.origin])
    WHERE a.lot = ANY (string_to_array(current_setting('ferry.lots'), ',')::bigint[])
), asked AS (
    SELECT k.place, k.job, k.attempt, p.tenant, p.session, p.origin,
        row_number() OVER (PARTITION BY k.lot ORDER BY k.place) <= p.count AS is_granted
    FROM unnest($3::bigint[], $4::uuid[], $5::integer[]) WITH ORDINALITY AS k(lot, job, attempt, place)
        JOIN permits p ON p.lot = k.lot
), granted AS (
    INSERT INTO connections AS c (origin, job, attempt, tenant, session, count)
    SELECT origin, job, attempt, tenant, session, 1 FROM asked WHERE is_granted
    ON CONFLICT (origin, job, attempt) DO UPDATE SET count = c.count + 1
)
SELECT place, is_granted FROM asked
