-- Reads the API key that the first request with an idempotency key created. Locks nothing.
-- $1 tenant, $2 idempotency key. Columns as in all_keys.sql, null if the request created none; then the
-- fingerprint of the request, and the sealed API key.
SELECT a.id, a.tenant, a.role, a.name, a.hash, a.created_at, a.revoked_at, k.fingerprint, k.secret
FROM idempotency_keys k LEFT JOIN api_keys a ON a.id = k.job_ids[1]
WHERE k.tenant = $1::text AND k.key = $2::text
