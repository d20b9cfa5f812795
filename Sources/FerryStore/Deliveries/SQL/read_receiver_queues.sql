-- Reads which receiver queues have pending deliveries, and when the first delivery of each is due, by
-- stepping through an index from queue to queue. Locks nothing.
-- $1 lower bound of receiver queues (column `receiver`, exclusive), $2 maximum number of queues.
-- Returns the queue, when it is due, whether it is open (a disabled or deleted endpoint is not), whether it
-- is ordered, the endpoint's revision, now, and the tenant. OFFSET 0 keeps the planner from reading all
-- endpoints.
WITH RECURSIVE receivers AS (
    (SELECT receiver, endpoint, next_try_at, tenant, 1 AS step FROM deliveries
    WHERE state = 'pending' AND receiver > $1::uuid ORDER BY receiver, next_try_at LIMIT 1)
    UNION ALL
    SELECT n.receiver, n.endpoint, n.next_try_at, n.tenant, l.step + 1 FROM receivers l CROSS JOIN LATERAL (
        SELECT d.receiver, d.endpoint, d.next_try_at, d.tenant FROM deliveries d
        WHERE d.state = 'pending' AND d.receiver > l.receiver ORDER BY d.receiver, d.next_try_at LIMIT 1
    ) n WHERE l.step < $2::integer
)
SELECT l.receiver,
    CASE WHEN w.is_ordered AND l.receiver = l.endpoint THEN (
        SELECT d.next_try_at FROM deliveries d
        WHERE d.receiver = l.receiver AND d.state = 'pending' AND d.endpoint IS NOT NULL
        ORDER BY d.position LIMIT 1)
    ELSE l.next_try_at END,
    l.endpoint IS NULL OR l.receiver <> l.endpoint OR w.is_enabled IS TRUE,
    coalesce(w.is_ordered AND l.receiver = l.endpoint, false), coalesce(w.revision, 0), now(),
    l.tenant
FROM receivers l LEFT JOIN LATERAL (
    SELECT is_ordered, is_enabled, revision FROM webhooks WHERE id = l.endpoint OFFSET 0
) w ON true
ORDER BY l.receiver
