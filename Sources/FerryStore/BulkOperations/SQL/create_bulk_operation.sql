-- Creates a bulk operation, once for each idempotency key, unless its tenant has too many running ones.
-- Locks: the key (waits for a transaction that inserts the same one), then the new row.
-- $1 id, $2 tenant, $3 now, $4 command, $5 whether a cancellation keeps bytes, $6 filter (JSON) or null, $7
-- ids or null, $8 upper bound of the jobs (exclusive), $9 trace context, $10 route, $11 key, $12 fingerprint,
-- all null without a key, $13 this node, $14 maximum number of running operations of the tenant.
-- Returns the id; no row if the key exists or there are too many operations.
WITH room AS (
    SELECT count(*) < $14::integer AS is_left FROM (
        SELECT FROM bulk_operations WHERE tenant = $2::text AND state = 'running' LIMIT $14::integer
    ) r
), fresh AS (
    INSERT INTO idempotency_keys (
        tenant, route, key, fingerprint, job_ids, states, next_attempts_at, node, created_at)
    SELECT $2::text, $10::text, $11::text, $12::bytea, ARRAY[$1::uuid], '{}', '{}', $13::uuid,
        $3::timestamptz
    WHERE $11::text IS NOT NULL AND (SELECT is_left FROM room)
    ON CONFLICT DO NOTHING
    RETURNING key
)
INSERT INTO bulk_operations (
    id, tenant, created_at, step_at, command, state, keeps_bytes, filter, ids, position, traceparent)
SELECT $1::uuid, $2::text, $3::timestamptz, $3::timestamptz, $4::text::bulk_command, 'running', $5::boolean,
    $6::text, $7::uuid[], $8::uuid, $9::text
WHERE (SELECT is_left FROM room) AND ($11::text IS NULL OR EXISTS (SELECT FROM fresh))
RETURNING id
