-- Reads the counts of unfinished work and the age of the oldest queued job and pending delivery, in one
-- snapshot. Locks nothing.
-- $1 claim queue (column `queue`) after which to begin, $2 number of claim queues to look at, $3 oldest
-- queued job found before, or null.
-- The oldest queued job is searched among the first jobs of these claim queues and $3. After the counts come
-- that job, the claim queue after which to continue, null after the last one, and whether a pause holds more.
WITH RECURSIVE first_of AS (
    (SELECT queue, id, 1 AS step FROM jobs WHERE state = 'queued' AND node IS NULL AND queue > $1::bigint
    ORDER BY queue, urgency, id LIMIT 1)
    UNION ALL
    SELECT n.queue, n.id, f.step + 1 FROM first_of f CROSS JOIN LATERAL (
        SELECT queue, id FROM jobs WHERE state = 'queued' AND node IS NULL AND queue > f.queue
        ORDER BY queue, urgency, id LIMIT 1
    ) n WHERE f.step < $2::integer
), oldest AS MATERIALIZED (
    SELECT j.id, coalesce(j.queued_at, j.created_at) AS since
    FROM unnest(ARRAY(SELECT id FROM first_of) || $3::uuid) AS u(id) CROSS JOIN LATERAL (
        SELECT id, queued_at, created_at, state FROM jobs WHERE id = u.id LIMIT 1
    ) j WHERE j.state = 'queued'
    ORDER BY since LIMIT 1
)
SELECT coalesce(sum(waiting), 0)::bigint, coalesce(sum(queued), 0)::bigint, coalesce(sum(running), 0)::bigint,
    coalesce(sum(suspended), 0)::bigint, coalesce(sum(deliveries_pending), 0)::bigint,
    (SELECT since FROM oldest),
    (SELECT occurred_at FROM deliveries WHERE state = 'pending' ORDER BY id LIMIT 1),
    now(), (SELECT paused FROM operations), (SELECT id FROM oldest),
    (SELECT queue FROM first_of WHERE step = $2::integer), (SELECT held FROM operations)
FROM job_counts
