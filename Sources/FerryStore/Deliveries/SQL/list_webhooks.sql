-- Reads a page of a tenant's endpoints, newest first. Locks nothing. Compared as in list_jobs.sql.
-- $1 tenant, $2 upper bound of ids (exclusive), $3 maximum number of endpoints. Columns as in
-- read_webhook.sql.
SELECT id, tenant, created_at, updated_at, revision, url, events, session, metadata, description,
    is_enabled, is_ordered, format, retry_delays, disable_after, disabled_at, disabled_reason, failing_since,
    public_key, keys, acknowledgement, headers, is_thin, tls
FROM webhooks
WHERE tenant = ANY (ARRAY[$1::text]) AND deleted_at IS NULL AND id < $2::uuid
ORDER BY tenant DESC, id DESC LIMIT $3::integer
