-- Creates an endpoint, unless its idempotency key is known or the tenant has too many endpoints.
-- Locks: the key (waits for a transaction that inserts the same one), then the new row.
-- $1 id, $2 tenant, $3 now, $4 URL, $5 events or null, $6 session or null, $7 metadata or null, $8
-- description or null, $9 enabled, $10 ordered, $11 format, $12 retry delays in seconds, $13 disable after
-- seconds, $14 public key, $15 sealed keys (also kept with the idempotency key, to repeat the reply), $16
-- route, $17 key and $18 fingerprint, or null each, $19 this node, $20 maximum number of endpoints of a
-- tenant, $21 acknowledgement (JSON) or null, $22 sealed header fields or null, $23 thin payload, $24
-- TLS settings (JSON with sealed values) or null, $25 whether an admin key creates it.
-- Returns whether it was created.
WITH fresh AS (
    INSERT INTO idempotency_keys (
        tenant, route, key, fingerprint, job_ids, states, next_attempts_at, node, created_at, secret)
    SELECT $2::text, $16::text, $17::text, $18::bytea, ARRAY[$1::uuid], ARRAY['webhook'],
        ARRAY[NULL::timestamptz], $19::uuid, $3::timestamptz, $15::bytea
    WHERE $17::text IS NOT NULL
        AND (SELECT count(*) FROM webhooks WHERE tenant = $2::text AND deleted_at IS NULL) < $20::integer
    ON CONFLICT DO NOTHING
    RETURNING key
), made AS (
    INSERT INTO webhooks (
        id, tenant, created_at, updated_at, url, events, session, metadata, description, is_enabled,
        is_ordered, format, retry_delays, disable_after, public_key, keys, disabled_at, disabled_reason,
        acknowledgement, headers, is_thin, tls, is_of_operator)
    SELECT $1::uuid, $2::text, $3::timestamptz, $3::timestamptz, $4::text, $5::text[], $6::text, $7::jsonb,
        $8::text, $9::boolean, $10::boolean, $11::text::webhook_format, $12::double precision[],
        $13::double precision, $14::text, $15::bytea, CASE WHEN NOT $9::boolean THEN $3::timestamptz END,
        CASE WHEN NOT $9::boolean THEN 'requested' END, $21::text, $22::text, $23::boolean, $24::text,
        $25::boolean
    WHERE ($17::text IS NULL OR EXISTS (SELECT FROM fresh))
        AND (SELECT count(*) FROM webhooks WHERE tenant = $2::text AND deleted_at IS NULL) < $20::integer
    RETURNING id
)
SELECT EXISTS (SELECT FROM made)
