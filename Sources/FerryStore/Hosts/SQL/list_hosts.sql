-- Reads a page of hosts in order of their origins, with their latest decisions, newest first. Locks nothing.
-- $1 lower bound of origins (exclusive), $2 maximum number of hosts, $3 maximum number of decisions of each.
WITH running AS MATERIALIZED (
    SELECT origin, count(*)::integer AS count FROM jobs
    WHERE state = 'running' AND node IS NOT NULL GROUP BY origin
)
SELECT h.origin, h.condition,
    coalesce((SELECT r.count FROM running r WHERE r.origin = h.origin), 0),
    ARRAY(
        SELECT d.decision FROM host_decisions d WHERE d.origin = h.origin
        ORDER BY d.number DESC LIMIT $3::integer)
FROM hosts h WHERE h.origin > $1::text ORDER BY h.origin LIMIT $2::integer
