-- Finds out which of these jobs exist, finished or not. Locks nothing. $1 ids, $2 the tenant, or null: any.
-- Looked up one by one, as in read_jobs.sql.
SELECT j.id FROM unnest($1::uuid[]) AS u(id) CROSS JOIN LATERAL (
    SELECT id, tenant FROM jobs WHERE id = u.id LIMIT 1
) j WHERE $2::text IS NULL OR j.tenant = $2::text
UNION ALL
SELECT j.id FROM unnest($1::uuid[]) AS u(id) CROSS JOIN LATERAL (
    SELECT id, tenant FROM finished_jobs WHERE id = u.id LIMIT 1
) j WHERE $2::text IS NULL OR j.tenant = $2::text
