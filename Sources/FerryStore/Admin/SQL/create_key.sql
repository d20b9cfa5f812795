-- Creates an API key, once for each idempotency key; a second key with the same hash changes nothing.
-- Locks: the idempotency key (waits for a transaction that inserts the same one), then the new row.
-- $1 id, $2 tenant, $3 role, $4 name, $5 SHA-256 of the key, $6 now. $7 tenant of the caller, $8 route, $9
-- idempotency key, $10 fingerprint and $11 the sealed API key, null each without an idempotency key. $12 this
-- node.
-- Returns `false` if the idempotency key is known.
WITH fresh AS (
    INSERT INTO idempotency_keys (
        tenant, route, key, fingerprint, job_ids, states, next_attempts_at, node, created_at, secret)
    SELECT $7::text, $8::text, $9::text, $10::bytea, ARRAY[$1::uuid], '{}', '{}', $12::uuid,
        $6::timestamptz, $11::bytea
    WHERE $9::text IS NOT NULL
    ON CONFLICT DO NOTHING
    RETURNING key
), made AS (
    INSERT INTO api_keys (id, tenant, role, name, hash, created_at)
    SELECT $1::uuid, $2::text, $3::text::key_role, $4::text, $5::bytea, $6::timestamptz
    WHERE $9::text IS NULL OR EXISTS (SELECT FROM fresh)
    ON CONFLICT (hash) DO NOTHING
)
SELECT $9::text IS NULL OR EXISTS (SELECT FROM fresh)
