-- Reads a page of a tenant's deliveries, newest first. Locks nothing. $1 tenant, $2 only ids below this one,
-- $3 job or null, $4 state or null, $5 how many at most, $6 endpoint or null, $7 type or null.
SELECT id, event, type, tenant, session, job, sequence, occurred_at, url, state, next_try_at, endpoint
FROM deliveries
WHERE tenant = $1::text AND id < $2::uuid AND ($3::uuid IS NULL OR job = $3::uuid)
    AND ($4::text IS NULL OR state = $4::text::delivery_state)
    AND ($6::uuid IS NULL OR endpoint = $6::uuid) AND ($7::text IS NULL OR type = $7::text)
ORDER BY id DESC LIMIT $5::integer
