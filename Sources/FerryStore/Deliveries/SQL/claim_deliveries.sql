-- Leases due deliveries to a sender by moving the time of their next try. Takes unordered deliveries up to a
-- total weight of $1, and ordered ones up to the same weight; a delivery weighs 1, plus 1 for every $7 bytes
-- of its job and its secrets.
-- Of an ordered receiver queue it takes the first pending delivery and those after it that are due, without a
-- gap. If another transaction has locked the first one, it takes none.
-- A delivery that still has a sender's node was lost by that sender: its try counts as lost.
-- Locks: due rows of unordered queues and the first row of ordered ones, skipping those that another
-- transaction has locked; then the remaining rows of ordered queues, waiting for them. The state is compared
-- by what it is not: see record_tries.sql.
-- $1 maximum weight, $2 seconds of the lease. One array element a receiver queue: $3 queues (column
-- `receiver`),
-- $4 maximum number of deliveries, $5 whether it is ordered. $6 the sender's node, $7 bytes.
WITH free AS (
    SELECT id FROM (
        SELECT d.id, sum(d.weight) OVER (ROWS UNBOUNDED PRECEDING) - d.weight AS before
        FROM unnest($3::uuid[], $4::integer[], $5::boolean[]) AS l(receiver, room, is_ordered)
        CROSS JOIN LATERAL (
            SELECT id,
                1 + (octet_length(job_json) + coalesce(octet_length(secrets), 0)) / $7::integer AS weight
            FROM deliveries
            WHERE receiver = l.receiver AND state = 'pending' AND next_try_at <= now()
            ORDER BY next_try_at LIMIT l.room FOR UPDATE SKIP LOCKED
        ) d WHERE NOT l.is_ordered LIMIT $1::integer
    ) w WHERE before < $1::integer
), heads AS (
    SELECT l.receiver, l.room
    FROM unnest($3::uuid[], $4::integer[], $5::boolean[]) AS l(receiver, room, is_ordered)
    CROSS JOIN LATERAL (
        SELECT FROM deliveries h
        WHERE h.id = (
            SELECT id FROM deliveries
            WHERE receiver = l.receiver AND state = 'pending' AND endpoint IS NOT NULL
            ORDER BY position LIMIT 1
        ) AND h.state NOT IN ('accepted', 'given_up') AND h.next_try_at <= now()
        FOR UPDATE SKIP LOCKED
    ) h WHERE l.is_ordered
), ordered AS (
    SELECT id FROM (
        SELECT d.id, sum(d.weight) OVER (ROWS UNBOUNDED PRECEDING) - d.weight AS before
        FROM heads l CROSS JOIN LATERAL (
            SELECT f.id, f.weight, bool_and(f.next_try_at <= now()) OVER (ORDER BY f.position) AS is_due
            FROM (
                SELECT id, position, next_try_at,
                    1 + (octet_length(job_json) + coalesce(octet_length(secrets), 0)) / $7::integer AS weight
                FROM deliveries
                WHERE receiver = l.receiver AND state = 'pending' AND endpoint IS NOT NULL
                ORDER BY position LIMIT l.room
            ) f
        ) d WHERE d.is_due LIMIT $1::integer
    ) w WHERE before < $1::integer
), claimed AS (
    UPDATE deliveries SET
        tries = tries + 1, next_try_at = clock_timestamp() + make_interval(secs => $2::double precision),
        lost_tries = lost_tries + CASE WHEN node IS NULL THEN 0 ELSE 1 END, node = $6::uuid
    WHERE id = ANY (ARRAY(SELECT id FROM free UNION ALL SELECT id FROM ordered ORDER BY id))
        AND state NOT IN ('accepted', 'given_up') AND next_try_at <= now()
    RETURNING *
)
SELECT c.id, c.receiver, c.event, c.type, c.tenant, c.session, c.job, c.sequence, c.occurred_at,
    coalesce(w.url, c.url), c.secrets, c.job_json, c.traceparent, c.tries, c.endpoint, w.is_ordered, w.format,
    w.retry_delays, w.revision, w.keys, c.lost_tries, coalesce(w.is_thin, c.is_thin), w.headers, w.tls
FROM claimed c LEFT JOIN LATERAL (
    SELECT url, is_ordered, format, retry_delays, revision, keys, is_thin, headers, tls FROM webhooks
    WHERE id = c.endpoint OFFSET 0
) w ON true
ORDER BY c.position
