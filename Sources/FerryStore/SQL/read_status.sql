-- Reads the counts of unfinished work and the age of its oldest parts, in one snapshot. Locks nothing.
-- The oldest queued job is the oldest of those that go first in their lots, of at most 100 lots.
WITH RECURSIVE first_of AS (
    (SELECT lot, id, 1 AS step FROM jobs WHERE state = 'queued' ORDER BY lot, urgency, id LIMIT 1)
    UNION ALL
    SELECT n.lot, n.id, f.step + 1 FROM first_of f CROSS JOIN LATERAL (
        SELECT lot, id FROM jobs WHERE state = 'queued' AND lot > f.lot
        ORDER BY lot, urgency, id LIMIT 1
    ) n WHERE f.step < 100
)
SELECT coalesce(sum(waiting), 0)::bigint, coalesce(sum(queued), 0)::bigint, coalesce(sum(running), 0)::bigint,
    coalesce(sum(suspended), 0)::bigint, coalesce(sum(deliveries_pending), 0)::bigint,
    (SELECT created_at FROM jobs WHERE id = (SELECT id FROM first_of ORDER BY id LIMIT 1)),
    (SELECT occurred_at FROM deliveries WHERE state = 'pending' ORDER BY id LIMIT 1),
    now(), (SELECT paused FROM operations)
FROM job_counts
