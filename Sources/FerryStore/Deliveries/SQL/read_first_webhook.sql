-- Reads what the first request with an idempotency key made, whatever has become of it since. Locks nothing.
-- $1 tenant, $2 key. Returns the fingerprint of the request, the endpoint's id, when it was made,
-- and the keys that it had then, sealed.
SELECT fingerprint, job_ids[1], created_at, secret FROM idempotency_keys
WHERE tenant = $1::text AND key = $2::text
