-- Removes deliveries older than their retention, deliveries of deleted endpoints, and deleted endpoints
-- without deliveries. An endpoint stays for 10 minutes, since a pass of the relay may have read it. A
-- delivery that a sender has claimed for a deleted endpoint stays until it is returned or its lease is over:
-- the sender notices the deletion by its pending deliveries (read_receiver_queues.sql).
-- Locks: the deliveries, skipping those that another transaction has locked, then this connection's row of
-- job_counts.
-- $1 upper bound of ids of old deliveries (exclusive), $2 maximum number of deliveries of each kind. Returns
-- the number of deliveries removed.
WITH old AS (
    SELECT id FROM deliveries WHERE id < $1::uuid ORDER BY id LIMIT $2::integer FOR UPDATE SKIP LOCKED
), orphaned AS (
    SELECT d.id FROM webhooks w CROSS JOIN LATERAL (
        SELECT id FROM deliveries
        WHERE endpoint = ANY (ARRAY[w.id]) AND endpoint IS NOT NULL
            AND (node IS NULL OR next_try_at <= now())
        ORDER BY endpoint, id LIMIT $2::integer FOR UPDATE SKIP LOCKED
    ) d WHERE w.deleted_at IS NOT NULL LIMIT $2::integer
), gone AS (
    DELETE FROM deliveries WHERE id = ANY (ARRAY(SELECT id FROM old UNION ALL SELECT id FROM orphaned))
    RETURNING id, state
), tries AS (
    DELETE FROM delivery_tries WHERE delivery = ANY (ARRAY(SELECT id FROM gone))
), empty AS (
    DELETE FROM webhooks w WHERE w.deleted_at < now() - interval '10 minutes'
        AND NOT EXISTS (SELECT FROM deliveries d WHERE d.endpoint = w.id)
), counted AS (
    INSERT INTO job_counts AS c (shard, deliveries_pending)
    SELECT current_setting('ferry.shard'), -count(*) FROM gone WHERE state = 'pending' HAVING count(*) > 0
    ON CONFLICT (shard) DO UPDATE SET deliveries_pending = c.deliveries_pending + excluded.deliveries_pending
)
SELECT count(*) FROM gone
