-- Creates a schedule, once for each idempotency key.
-- Locks: the key (waits for a transaction that inserts the same one), then the new row.
-- $1 id, $2 tenant, $3 now, $4 next occurrence or null, $5 when it runs or null, $6 whether it watches its
-- jobs, $7 definition. One array element for each job: $8 specs, $9 sealed secrets or null, $10 payloads or
-- null. Of a list of jobs, else null: $11 its group or null, $12 whether each run closes the group. $13
-- route, $14 key, $15 fingerprint, all null without a key, $16 this node. Uploads that the
-- jobs send: $17 ids, $18 names.
-- Returns the id; no row if the key exists.
WITH fresh AS (
    INSERT INTO idempotency_keys (
        tenant, route, key, fingerprint, job_ids, states, next_attempts_at, node, created_at)
    SELECT $2::text, $13::text, $14::text, $15::bytea, ARRAY[$1::uuid], '{}', '{}', $16::uuid,
        $3::timestamptz
    WHERE $14::text IS NOT NULL
    ON CONFLICT DO NOTHING
    RETURNING key
)
INSERT INTO schedules (
    id, tenant, created_at, updated_at, next_scheduled_at, next_run_at, watches_jobs, definition, specs,
    secrets, payloads, job_group, closes_group, uploads)
SELECT $1::uuid, $2::text, $3::timestamptz, $3::timestamptz, $4::timestamptz, $5::timestamptz, $6::boolean,
    $7::text, $8::text[], $9::bytea[], $10::bytea[], $11::text, $12::boolean,
    scheduled_uploads($17::uuid[], $18::text[])
WHERE $14::text IS NULL OR EXISTS (SELECT FROM fresh)
RETURNING id
