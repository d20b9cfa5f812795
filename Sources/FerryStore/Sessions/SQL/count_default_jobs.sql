-- Counts the unfinished jobs of a tenant's default session by state. Locks nothing.
-- $1 tenant, $2 maximum number of the tenant's jobs to look at; the last column is the number of jobs looked
-- at. Compared as in list_jobs.sql.
SELECT state, count(*) FILTER (WHERE session = 'default'), (sum(count(*)) OVER ())::bigint
FROM (
    SELECT state, session FROM jobs WHERE tenant = ANY (ARRAY[$1::text])
    ORDER BY tenant DESC, id DESC LIMIT $2::integer
) j GROUP BY state
