-- Reads an endpoint. Locks nothing. $1 id, $2 tenant.
SELECT id, tenant, created_at, updated_at, revision, url, events, session, metadata, description,
    is_enabled, is_ordered, format, retry_delays, disable_after, disabled_at, disabled_reason, failing_since,
    public_key, keys, acknowledgement, headers, is_thin, tls
FROM webhooks WHERE id = $1::uuid AND tenant = $2::text AND deleted_at IS NULL
