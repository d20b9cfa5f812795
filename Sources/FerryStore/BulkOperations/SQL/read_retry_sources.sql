-- Reads what finished jobs need to be submitted again. Locks nothing. $1 ids.
-- Returns for each finished job: id, whether another job retries it already; secrets and payload, or null if
-- there are none or another job retries it. Each job is looked up alone, as in read_jobs.sql.
SELECT j.id, r.is_retried, CASE WHEN NOT r.is_retried THEN j.secrets END,
    CASE WHEN NOT r.is_retried THEN j.payload END
FROM unnest($1::uuid[]) AS u(id) CROSS JOIN LATERAL (
    SELECT id, secrets, payload FROM finished_jobs WHERE id = u.id LIMIT 1
) j CROSS JOIN LATERAL (
    SELECT EXISTS (SELECT FROM jobs n WHERE n.retry_of = ANY (ARRAY[u.id]))
        OR EXISTS (SELECT FROM finished_jobs n WHERE n.retry_of = ANY (ARRAY[u.id]))
        AS is_retried
) r
