-- Finds the claim queues that have queued jobs, by skipping from one to the next. Locks nothing.
-- $1 the claim queue to begin after, $2 how many at most, $3 the node, $4 seconds without a heartbeat after
-- which a node is gone. Returns number, tenant (null: the claim queue does not exist), session, origin
-- (empty: a wide one), its only node or null, its path (empty: any), the urgency of the first job, the
-- requests that the limits of its scopes allow at once or null, the end of their hold or null, and whether it
-- is for another node that is alive.
WITH RECURSIVE found AS (
    (SELECT queue, urgency FROM jobs WHERE state = 'queued' AND node IS NULL AND queue > $1::bigint
    ORDER BY queue, urgency, id LIMIT 1)
    UNION ALL
    SELECT n.queue, n.urgency FROM found f CROSS JOIN LATERAL (
        SELECT queue, urgency FROM jobs WHERE state = 'queued' AND node IS NULL AND queue > f.queue
        ORDER BY queue, urgency, id LIMIT 1) n
), seen AS MATERIALIZED (
    SELECT queue, urgency FROM found LIMIT $2::integer
)
SELECT s.queue, l.tenant, l.session, l.origin, nullif(l.home, '')::uuid, l.path, s.urgency,
    h.at_once, CASE WHEN h.blocked_until IS NOT NULL THEN least(h.blocked_until, now() + '1 year') END,
    l.home NOT IN ('', $3::uuid::text) AND EXISTS (
        SELECT FROM nodes n WHERE n.id = nullif(l.home, '')::uuid AND n.is_worker
            AND n.heartbeat_at > now() - make_interval(secs => $4::double precision))
FROM seen s LEFT JOIN claim_queues l ON l.id = ANY (ARRAY[s.queue])
    LEFT JOIN LATERAL (
        SELECT least(min(m.connection_limit), floor(min(request_burst(m.request_rate)))::integer) AS at_once,
            max(m.blocked_until) FILTER (WHERE m.blocked_until > now()) AS blocked_until
        FROM host_limits m
        WHERE m.origin = l.origin AND m.tenant IN ('', l.tenant) AND m.path IN ('', l.path)
    ) h ON l.id < 0
