-- Finds hosts whose jobs wait until they are reachable but that no node probes: the URL of a job has changed,
-- or the host was forgotten at that moment. Looks once at each host that jobs wait for. Locks nothing.
-- $1 maximum number of hosts.
WITH RECURSIVE waited AS (
    (SELECT origin FROM jobs WHERE state = 'waiting' AND waiting_for = 'connectivity' ORDER BY origin LIMIT 1)
    UNION ALL
    SELECT n.origin FROM waited w CROSS JOIN LATERAL (
        SELECT origin FROM jobs
        WHERE state = 'waiting' AND waiting_for = 'connectivity' AND origin > w.origin
        ORDER BY origin LIMIT 1
    ) n
)
SELECT w.origin FROM waited w
-- Subqueries, which the planner does not turn into joins.
WHERE (SELECT true FROM hosts h WHERE h.origin = w.origin AND h.is_awaited) IS NULL
    AND (
        SELECT true FROM jobs j
        WHERE j.state = 'waiting' AND j.waiting_for = 'connectivity' AND j.origin = w.origin
            AND j.next_attempt_at IS NULL LIMIT 1)
LIMIT $1::integer
