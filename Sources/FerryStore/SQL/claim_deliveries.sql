-- Leases due deliveries to a sender by moving the time of their next try. Locks: due rows that nobody else
-- has locked. $1 how many at most, $2 seconds of the lease.
WITH claimed AS (
    UPDATE deliveries SET
        tries = tries + 1, next_try_at = clock_timestamp() + make_interval(secs => $2::double precision)
    WHERE id = ANY (ARRAY(
        SELECT id FROM deliveries WHERE state = 'pending' AND next_try_at <= now()
        ORDER BY next_try_at LIMIT $1::integer FOR UPDATE SKIP LOCKED))
    RETURNING *
)
SELECT id, event, type, tenant, session, job, sequence, occurred_at, url, secrets, job_json, traceparent,
    tries
FROM claimed ORDER BY sequence
