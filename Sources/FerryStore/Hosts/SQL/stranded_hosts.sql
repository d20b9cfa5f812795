-- Finds hosts whose jobs wait until they can be reached and that nobody looks for any more: the job has got
-- another URL, or the host was forgotten in that moment. Locks nothing. $1 how many hosts at most. By one
-- look at each host that jobs wait for.
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
WHERE NOT EXISTS (
    SELECT FROM hosts h WHERE h.origin = w.origin AND h.is_awaited)
    AND EXISTS (
        SELECT FROM jobs j
        WHERE j.state = 'waiting' AND j.waiting_for = 'connectivity' AND j.origin = w.origin
            AND j.next_attempt_at IS NULL)
LIMIT $1::integer
