-- Reads one delivery. Locks nothing. $1 id, $2 tenant.
SELECT id, event, type, tenant, session, job, sequence, occurred_at, url, state, next_try_at, endpoint
FROM deliveries WHERE id = $1::uuid AND tenant = $2::text
