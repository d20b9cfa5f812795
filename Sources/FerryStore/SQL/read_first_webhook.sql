-- Reads what the first request with an idempotency key made. Locks nothing. $1 tenant, $2 route, $3 key.
SELECT fingerprint, job_ids[1] FROM idempotency_keys
WHERE tenant = $1::text AND route = $2::text AND key = $3::text
