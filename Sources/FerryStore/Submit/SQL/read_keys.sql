-- Reads the replies to the first submissions with these idempotency keys. Locks nothing. Joined as
-- finish_jobs.sql. One array element for each submission: $1 its number, $2 tenants, $3 keys.
SELECT u.submission, k.fingerprint, k.job_ids, k.states, k.next_attempts_at, k.node, k.created_at,
    k.existing
FROM unnest($1::integer[], $2::text[], $3::text[]) AS u(submission, tenant, key)
JOIN idempotency_keys k ON k.tenant = ANY (ARRAY[u.tenant]) AND k.key = ANY (ARRAY[u.key])
