-- Adds a delivery to an endpoint that is due at once and tried once. Locks: the new row, then this
-- connection's row of job_counts.
-- $1 endpoint, $2 tenant, $3 delivery, $4 event, $5 now, $6 traceparent or null. Returns the delivery; no row
-- if there is no such endpoint.
WITH made AS (
    INSERT INTO deliveries (
        id, event, job, sequence, occurred_at, next_try_at, type, tenant, session, url, job_json, endpoint,
        traceparent)
    SELECT $3::uuid, $4::uuid, NULL, 0, $5::timestamptz, least($5::timestamptz, now()), 'webhook.ping',
        w.tenant, '', w.url, 'null', w.id, $6::text
    FROM webhooks w WHERE w.id = $1::uuid AND w.tenant = $2::text AND w.deleted_at IS NULL
    RETURNING id
), counted AS (
    INSERT INTO job_counts AS c (shard, deliveries_pending)
    SELECT current_setting('ferry.shard'), count(*) FROM made HAVING count(*) > 0
    ON CONFLICT (shard) DO UPDATE SET deliveries_pending = c.deliveries_pending + excluded.deliveries_pending
)
SELECT id FROM made
