-- Makes deliveries due that the sender of a dead node has claimed, and records their tries as lost. Steps
-- from receiver queue to receiver queue and reads the leased deliveries of each.
-- Locks: the deliveries, in the order of their ids. $1 node, $2 seconds of the lease. Returns the number of
-- deliveries.
WITH RECURSIVE receivers AS (
    (SELECT receiver FROM deliveries WHERE state = 'pending' ORDER BY receiver LIMIT 1)
    UNION ALL
    SELECT n.receiver FROM receivers l CROSS JOIN LATERAL (
        SELECT d.receiver FROM deliveries d WHERE d.state = 'pending' AND d.receiver > l.receiver
        ORDER BY d.receiver LIMIT 1
    ) n
), held AS (
    SELECT h.id FROM receivers l CROSS JOIN LATERAL (
        SELECT d.id, d.node FROM deliveries d
        WHERE d.receiver = l.receiver AND d.state = 'pending' AND d.next_try_at > now()
            AND d.next_try_at <= clock_timestamp() + make_interval(secs => $2::double precision)
        ORDER BY d.next_try_at OFFSET 0
    ) h WHERE h.node = $1::uuid
), changed AS (
    UPDATE deliveries d SET next_try_at = now()
    FROM (
        SELECT id, next_try_at FROM deliveries
        WHERE id = ANY (ARRAY(SELECT id FROM held)) ORDER BY id FOR UPDATE
    ) b
    WHERE d.id = ANY (ARRAY[b.id]) AND d.node = $1::uuid AND d.next_try_at > now()
        AND d.state NOT IN ('accepted', 'given_up')
    RETURNING d.id, d.tries, b.next_try_at - make_interval(secs => $2::double precision) AS claimed_at
), kept AS (
    INSERT INTO delivery_tries (delivery, number, started_at, duration, status, error, answer)
    SELECT id, tries, claimed_at, greatest(0, extract(epoch FROM now() - claimed_at)), NULL, 'sender_lost', ''
    FROM changed
    ON CONFLICT DO NOTHING
)
SELECT count(*) FROM changed
