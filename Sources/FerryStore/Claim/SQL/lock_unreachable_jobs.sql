-- Reads the first queued jobs of claim queues, as far as their origins are unreachable and they have no other
-- way. A job whose cancellation was requested, or whose last attempt was lost with its node, is left out.
-- Locks: the rows read; skips rows that another transaction has locked.
-- $1 claim queues, $2 rows of each to look at. Returns claim queue, id, the code why the origin is
-- unreachable, and whether the job has an error.
SELECT w.queue, j.id, h.unreachable, j.has_error
FROM unnest($1::bigint[]) AS w(queue) CROSS JOIN LATERAL (
    SELECT id, origin, awaits_host AND NOT was_lost AND NOT cancel_requested AS may_wait,
        error IS NOT NULL AS has_error
    FROM jobs
    WHERE state = 'queued' AND node IS NULL AND queue = w.queue
    ORDER BY urgency, id LIMIT $2::integer
    FOR UPDATE SKIP LOCKED) j
CROSS JOIN LATERAL (SELECT unreachable FROM hosts WHERE origin = j.origin OFFSET 0) h
WHERE j.may_wait AND h.unreachable IS NOT NULL
