-- Changes an endpoint. An endpoint that becomes disabled gets the reason `requested`; one that becomes
-- enabled forgets its failures. Locks: its row.
-- $1 id, $2 expected revision, $3 URL, $4 events or null, $5 session or null, $6 metadata or null, $7
-- description or null, $8 enabled, $9 ordered, $10 format, $11 retry delays in seconds, $12 disable after
-- seconds, $13 public key, $14 sealed keys, $15 acknowledgement (JSON) or null, $16 sealed header
-- fields or null, $17 thin payload, $18 TLS settings (JSON with sealed values) or null.
-- Columns as in read_webhook.sql; no row if it has another revision.
UPDATE webhooks SET
    revision = revision + 1, updated_at = now(), url = $3::text, events = $4::text[], session = $5::text,
    metadata = $6::jsonb, description = $7::text, is_enabled = $8::boolean, is_ordered = $9::boolean,
    format = $10::text::webhook_format, retry_delays = $11::double precision[],
    disable_after = $12::double precision, public_key = $13::text, keys = $14::bytea,
    acknowledgement = $15::text, headers = $16::text, is_thin = $17::boolean, tls = $18::text,
    disabled_at = CASE WHEN $8::boolean THEN NULL WHEN is_enabled THEN now() ELSE disabled_at END,
    disabled_reason = CASE WHEN $8::boolean THEN NULL WHEN is_enabled THEN 'requested'
        ELSE disabled_reason END,
    failing_since = CASE WHEN $8::boolean AND NOT is_enabled THEN NULL ELSE failing_since END
-- An expression, so that no plan uses the index of tenants.
WHERE id = $1::uuid AND revision = $2::integer AND coalesce(deleted_at, 'infinity') = 'infinity'
RETURNING id, tenant, created_at, updated_at, revision, url, events, session, metadata, description,
    is_enabled, is_ordered, format, retry_delays, disable_after, disabled_at, disabled_reason, failing_since,
    public_key, keys, acknowledgement, headers, is_thin, tls
