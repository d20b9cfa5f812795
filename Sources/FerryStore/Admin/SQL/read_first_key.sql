-- Reads the API key that the first request with an idempotency key made. Locks nothing. $1 tenant, $2 key.
-- Columns as in all_keys.sql, null if the request made none, then the fingerprint of the request and the API
-- key itself, sealed.
SELECT a.id, a.tenant, a.role, a.name, a.hash, a.created_at, a.revoked_at, k.fingerprint, k.secret
FROM idempotency_keys k LEFT JOIN api_keys a ON a.id = k.job_ids[1]
WHERE k.tenant = $1::text AND k.key = $2::text
