-- Grants connections to attempts in the narrow claim queues that lock_claim_queues.sql has locked, as far as
-- their limits allow (view narrow_claim_queues). Grants none while jobs of the claim queue are queued: those
-- go first. Each grant takes a token from the scopes that have a request rate.
-- Locks: the rows of the attempts in connections, then rows of host_limits.
-- $1 claim queues (column `queue`), $2 connections per host of the session of each, or null. One array
-- element a request: $3 claim queues, $4 jobs, $5 attempts, $6 paths. $7 this node; none are granted while
-- another node has all permits and was silent for less than $8 seconds.
-- Returns the requests of the locked claim queues in no order: their positions from 1, and whether each was
-- granted.
WITH permits AS MATERIALIZED (
    SELECT n.queue, n.tenant, n.session, n.origin,
        CASE
            WHEN n.blocked_until IS NOT NULL OR EXISTS (
                SELECT FROM nodes w WHERE w.has_permits AND w.id <> $7::uuid
                    AND w.heartbeat_at > now() - make_interval(secs => $8::double precision)) OR (
                SELECT true FROM jobs q WHERE q.state = 'queued' AND q.node IS NULL AND q.queue = n.queue
                LIMIT 1) THEN 0
            ELSE coalesce(least(
                CASE WHEN a.session_limit IS NOT NULL THEN a.session_limit - n.session_count END,
                n.room, floor(n.request_credit)::bigint), 1000000)
        END AS count
    FROM unnest($1::bigint[], $2::integer[]) AS a(queue, session_limit)
        JOIN narrow_claim_queues n ON n.queue = ANY (ARRAY[a.queue])
    WHERE a.queue = ANY (string_to_array(current_setting('ferry.claim_queues'), ',')::bigint[])
), asked AS (
    SELECT k.place, k.job, k.attempt, k.path, p.tenant, p.session, p.origin,
        row_number() OVER (PARTITION BY k.queue ORDER BY k.place) <= p.count AS is_granted
    FROM unnest($3::bigint[], $4::uuid[], $5::integer[], $6::text[])
        WITH ORDINALITY AS k(queue, job, attempt, path, place)
        JOIN permits p ON p.queue = k.queue
), granted AS (
    INSERT INTO connections AS c (origin, path, job, attempt, tenant, session, count)
    SELECT origin, path, job, attempt, tenant, session, 1 FROM asked WHERE is_granted
    ON CONFLICT (origin, path, job, attempt) DO UPDATE SET count = c.count + 1
), paid AS (
    UPDATE host_limits s SET
        request_credit = request_credit(s.request_rate, s.request_credit, s.request_credit_at) - g.count,
        request_credit_at = now()
    FROM (
        SELECT l.origin, l.tenant, l.path, count(*) FROM asked a
        JOIN host_limits l ON l.origin = a.origin AND l.tenant IN ('', a.tenant) AND l.path IN ('', a.path)
        WHERE a.is_granted AND l.request_rate IS NOT NULL
        GROUP BY l.origin, l.tenant, l.path) g
    WHERE s.origin = g.origin AND s.tenant = g.tenant AND s.path = g.path
)
SELECT place, is_granted FROM asked
