-- Adds deliveries to the outbox. Locks: the new rows, then this connection's row of job_counts.
-- One array element a delivery: $1 ids, $2 events, $3 jobs or null, $4 sequence numbers, $5 when the event
-- happened, $6 types, $7 tenants, $8 sessions, $9 URLs, $10 jobs as JSON, $11 sealed secrets or null, $12
-- traceparents or null, $13 endpoints or null, $14 whether it is leased for its first try, $15 whether
-- a job's own webhook gets the thin payload. $16 seconds of the lease, $17 node that gets the lease.
WITH added AS (
    INSERT INTO deliveries (
        id, event, job, sequence, occurred_at, next_try_at, tries, type, tenant, session, url, job_json,
        secrets, traceparent, endpoint, node, is_thin)
    SELECT u.id, u.event, u.job, u.sequence, u.occurred_at,
        CASE WHEN u.is_leased THEN clock_timestamp() + make_interval(secs => $16::double precision)
            ELSE least(u.occurred_at, now()) END,
        CASE WHEN u.is_leased THEN 1 ELSE 0 END,
        u.type, u.tenant, u.session, u.url, u.job_json, u.secrets, u.traceparent, u.endpoint,
        CASE WHEN u.is_leased THEN $17::uuid END, u.is_thin
    FROM unnest(
        $1::uuid[], $2::uuid[], $3::uuid[], $4::bigint[], $5::timestamptz[], $6::text[], $7::text[],
        $8::text[], $9::text[], $10::text[], $11::bytea[], $12::text[], $13::uuid[], $14::boolean[],
        $15::boolean[]
    ) AS u(
        id, event, job, sequence, occurred_at, type, tenant, session, url, job_json, secrets, traceparent,
        endpoint, is_leased, is_thin)
    RETURNING id
)
INSERT INTO job_counts AS c (shard, deliveries_pending)
SELECT current_setting('ferry.shard'), count(*) FROM added HAVING count(*) > 0
ON CONFLICT (shard) DO UPDATE SET deliveries_pending = c.deliveries_pending + excluded.deliveries_pending
