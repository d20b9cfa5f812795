-- Counts what may be claimed of the narrow lots that lock_lots.sql has taken: what runs there, and what other
-- connections of running attempts lead there. Locks nothing. $1 lots, $2 how
-- many are wanted of each, $3 the connections per host of their sessions, or null. Keeps the result for
-- claim_limited_jobs.sql, and returns it: lots, counts, and until when their hosts are backed off, at most a
-- year ahead.
WITH permits AS MATERIALIZED (
    SELECT a.lot,
        CASE WHEN h.blocked_until > now() THEN 0 ELSE greatest(0, least(
            a.count,
            CASE WHEN a.session_limit IS NOT NULL THEN a.session_limit - (
                SELECT count(*) FROM jobs r
                WHERE r.state = 'running' AND r.lot < 0 AND r.origin = l.origin AND r.lot = l.id) - (
                SELECT coalesce(sum(o.count), 0) FROM open_connections o
                WHERE o.origin = l.origin AND o.tenant = l.tenant AND o.session = l.session) END,
            CASE WHEN h.connection_limit IS NOT NULL THEN h.connection_limit - (
                SELECT count(*) FROM jobs r
                WHERE r.state = 'running' AND r.lot < 0 AND r.origin = l.origin) - (
                SELECT coalesce(sum(o.count), 0) FROM open_connections o WHERE o.origin = l.origin) END))
        END AS count,
        CASE WHEN h.blocked_until > now() THEN least(h.blocked_until, now() + '1 year') END AS blocked_until
    FROM unnest($1::bigint[], $2::integer[], $3::integer[]) AS a(lot, count, session_limit)
        JOIN lots l ON l.id = ANY (ARRAY[a.lot])
        LEFT JOIN hosts h ON h.origin = ANY (ARRAY[l.origin])
    WHERE a.lot = ANY (string_to_array(current_setting('ferry.lots'), ',')::bigint[])
)
SELECT array_agg(lot), array_agg(count::integer), array_agg(blocked_until),
    set_config('ferry.permits', coalesce(
        string_agg(lot::text, ',') FILTER (WHERE count > 0) || ';'
        || string_agg(count::text, ',') FILTER (WHERE count > 0), ';'), true)
FROM permits
