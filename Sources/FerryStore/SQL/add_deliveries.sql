-- Adds events to the outbox. Locks: the new rows, then this connection's row of job_counts. One array element
-- a delivery: $1 ids, $2 events, $3 jobs or null, $4 numbers, $5 when it happened, $6 types, $7 tenants, $8
-- sessions, $9 URLs, $10 the jobs as JSON, $11 sealed secrets or null, $12 traceparents or null, $13
-- endpoints or null.
WITH added AS (
    INSERT INTO deliveries (
        id, event, job, sequence, occurred_at, next_try_at, type, tenant, session, url, job_json, secrets,
        traceparent, endpoint)
    SELECT u.id, u.event, u.job, u.sequence, u.occurred_at, least(u.occurred_at, now()), u.type, u.tenant,
        u.session, u.url, u.job_json, u.secrets, u.traceparent, u.endpoint
    FROM unnest(
        $1::uuid[], $2::uuid[], $3::uuid[], $4::bigint[], $5::timestamptz[], $6::text[], $7::text[],
        $8::text[], $9::text[], $10::text[], $11::bytea[], $12::text[], $13::uuid[]
    ) AS u(
        id, event, job, sequence, occurred_at, type, tenant, session, url, job_json, secrets, traceparent,
        endpoint)
    RETURNING id
)
INSERT INTO job_counts AS c (shard, deliveries_pending)
SELECT current_setting('ferry.shard'), count(*) FROM added HAVING count(*) > 0
ON CONFLICT (shard) DO UPDATE SET deliveries_pending = c.deliveries_pending + excluded.deliveries_pending
