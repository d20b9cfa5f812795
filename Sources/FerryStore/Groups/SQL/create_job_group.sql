-- Creates a group, once for each idempotency key, unless its name is taken or its tenant has too many. Fails
-- with a unique violation if another transaction has inserted the key meanwhile.
-- Locks: the new row (waits for a transaction that inserts the same name), then the key (waits for one that
-- inserts the same key).
-- $1 id, $2 tenant, $3 now, $4 name, $5 definition, $6 sealed secrets or null, $7 route, $8 key, $9
-- fingerprint, all null without a key, $10 this node, $11 groups of a tenant at most.
-- Returns whether the group was created and the key is new; else whether the name is taken, or the tenant may
-- have another group.
WITH room AS MATERIALIZED (
    SELECT count(*) < $11::bigint AS is_left FROM (
        SELECT FROM job_groups WHERE tenant = $2::text LIMIT $11::bigint) AS g
), made AS (
    INSERT INTO job_groups (id, created_at, tenant, name, definition, secrets)
    SELECT $1::uuid, $3::timestamptz, $2::text, $4::text, $5::text, $6::bytea
    WHERE (SELECT is_left FROM room) AND NOT EXISTS (
        SELECT FROM idempotency_keys WHERE tenant = $2::text AND key = $8::text)
    ON CONFLICT (tenant, name) DO NOTHING
    RETURNING id
), fresh AS (
    INSERT INTO idempotency_keys (
        tenant, route, key, fingerprint, job_ids, states, next_attempts_at, node, created_at)
    SELECT $2::text, $7::text, $8::text, $9::bytea, ARRAY[id], '{}', '{}', $10::uuid, $3::timestamptz
    FROM made WHERE $8::text IS NOT NULL
    RETURNING key
)
SELECT EXISTS (SELECT FROM made) AND ($8::text IS NULL OR EXISTS (SELECT FROM fresh)),
    (SELECT is_left FROM room)
        OR EXISTS (SELECT FROM job_groups WHERE tenant = $2::text AND name = $4::text)
