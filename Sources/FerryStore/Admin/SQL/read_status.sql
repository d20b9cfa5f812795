-- Reads the counts of unfinished work and the age of its oldest parts, in one snapshot. Locks nothing. $1 the
-- lot to begin after, $2 how many lots are looked at, $3 a job that was found before, or null. What is queued
-- for the longest is looked for among those that go first in these lots, and that one. Returns it behind the
-- counts, and the lot to go on after: null, there are no more.
WITH RECURSIVE first_of AS (
    (SELECT lot, id, 1 AS step FROM jobs WHERE state = 'queued' AND lot > $1::bigint
    ORDER BY lot, urgency, id LIMIT 1)
    UNION ALL
    SELECT n.lot, n.id, f.step + 1 FROM first_of f CROSS JOIN LATERAL (
        SELECT lot, id FROM jobs WHERE state = 'queued' AND lot > f.lot
        ORDER BY lot, urgency, id LIMIT 1
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
    (SELECT lot FROM first_of WHERE step = $2::integer)
FROM job_counts
