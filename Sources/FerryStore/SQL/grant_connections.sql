-- Grants connections to attempts at the origins of narrow lots that lock_lots.sql has taken, as far as their
-- limits have room (narrow_lots), and to nobody while jobs of the lot queue: those go first. Each is paid for
-- where the host has a rate. Locks: the rows of the attempts. $1 lots, $2 of each the connections per host of
-- its session, or null; one array element an ask: $3 lots, $4 jobs, $5 attempts. Returns the asks of those
-- lots, in no order, by their place from 1, and whether each was granted.
WITH permits AS MATERIALIZED (
    SELECT n.lot, n.tenant, n.session, n.origin, n.request_rate, n.request_credit,
        CASE
            WHEN n.blocked_until IS NOT NULL OR (
                SELECT true FROM jobs q WHERE q.state = 'queued' AND q.lot = n.lot LIMIT 1) THEN 0
            ELSE coalesce(least(
                CASE WHEN a.session_limit IS NOT NULL THEN a.session_limit - n.session_count END,
                CASE WHEN n.connection_limit IS NOT NULL THEN n.connection_limit - n.host_count END,
                floor(n.request_credit)::bigint), 1000000)
        END AS count
    FROM unnest($1::bigint[], $2::integer[]) AS a(lot, session_limit)
        JOIN narrow_lots n ON n.lot = ANY (ARRAY[a.lot])
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
), paid AS (
    UPDATE hosts h SET request_credit = p.request_credit - g.count, request_credit_at = now()
    FROM permits p
        JOIN (SELECT origin, count(*) FROM asked WHERE is_granted GROUP BY origin) g ON g.origin = p.origin
    WHERE h.origin = ANY (ARRAY[p.origin]) AND p.request_rate IS NOT NULL
)
SELECT place, is_granted FROM asked
