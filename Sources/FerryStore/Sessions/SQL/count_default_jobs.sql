-- Counts the unfinished jobs of a tenant's default session, by state. Locks nothing. $1 tenant, $2 how many
-- jobs of the tenant are looked at; the last column is how many there were.
SELECT state, count(*) FILTER (WHERE session = 'default'), (sum(count(*)) OVER ())::bigint
FROM (
    SELECT state, session FROM jobs WHERE tenant = $1::text ORDER BY tenant DESC, id DESC LIMIT $2::integer
) j GROUP BY state
