-- Reads what finished jobs need to be submitted again. Locks nothing. $1 ids.
-- Returns for each finished job: id, whether another job has retried it; secrets and payload, or null if
-- there are none or another job has retried it. Each job is looked up alone, as in read_jobs.sql.
SELECT j.id, j.retried_by IS NOT NULL, CASE WHEN j.retried_by IS NULL THEN j.secrets END,
    CASE WHEN j.retried_by IS NULL THEN j.payload END
FROM unnest($1::uuid[]) AS u(id) CROSS JOIN LATERAL (
    SELECT id, retried_by, secrets, payload FROM finished_jobs WHERE id = u.id LIMIT 1
) j
