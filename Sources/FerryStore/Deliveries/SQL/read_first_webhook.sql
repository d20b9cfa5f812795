-- Reads what the first request with an idempotency key created, whether it still exists or not. Locks
-- nothing.
-- $1 tenant, $2 key. Returns the fingerprint of the request, the endpoint's id, when it was created, and its
-- sealed keys of that time.
SELECT fingerprint, job_ids[1], created_at, secret FROM idempotency_keys
WHERE tenant = $1::text AND key = $2::text
