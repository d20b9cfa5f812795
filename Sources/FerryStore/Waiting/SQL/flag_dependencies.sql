-- Marks jobs as dependencies of others, so that finish_jobs.sql reports their end.
-- Locks: the unmarked jobs; skips rows that another transaction has locked and never waits.
-- $1 ids, $2 tenant. Returns the ids that the tenant has, finished or not, and whether each is marked or
-- finished. Call again for those that are neither.
-- Each job is looked up alone by its id, as in read_jobs.sql.
WITH flagged AS (
    UPDATE jobs SET has_dependents = true
    WHERE id = ANY (ARRAY(
        SELECT id FROM jobs
        WHERE id = ANY ($1::uuid[]) AND (tenant = $2::text) IS TRUE AND NOT has_dependents
        FOR UPDATE SKIP LOCKED))
    RETURNING id
)
SELECT j.id, j.has_dependents OR EXISTS (SELECT FROM flagged f WHERE f.id = j.id)
FROM unnest($1::uuid[]) AS u(id) CROSS JOIN LATERAL (
    SELECT id, tenant, has_dependents FROM jobs WHERE id = u.id LIMIT 1
) j WHERE j.tenant = $2::text
UNION ALL
SELECT j.id, true FROM unnest($1::uuid[]) AS u(id) CROSS JOIN LATERAL (
    SELECT id, tenant FROM finished_jobs WHERE id = u.id LIMIT 1
) j WHERE j.tenant = $2::text
