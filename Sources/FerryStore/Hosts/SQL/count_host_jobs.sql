-- Finds the tenants that are told of a change of a host. Locks nothing. $1 origin, $2 type of the event, $3
-- tenants whose attempts have just reached the host or failed to.
-- Returns each tenant, its unfinished jobs that wait until the host can be reached, and whether it has no job
-- there: then only endpoints of operators are told.
WITH awaiting AS (
    SELECT tenant, count(*) AS count FROM jobs WHERE awaits_host AND origin = $1::text GROUP BY tenant
), concerned AS (
    SELECT tenant FROM awaiting
    UNION SELECT tenant FROM jobs WHERE node IS NOT NULL AND origin = $1::text
    UNION SELECT unnest($3::text[])
), operators AS (
    SELECT DISTINCT tenant FROM webhooks
    WHERE is_of_operator AND is_enabled AND deleted_at IS NULL AND session IS NULL AND metadata IS NULL
        AND $2::text = ANY (events)
)
SELECT u.tenant, coalesce(a.count, 0)::bigint, NOT EXISTS (SELECT FROM concerned c WHERE c.tenant = u.tenant)
FROM (SELECT tenant FROM concerned UNION SELECT tenant FROM operators) u
LEFT JOIN awaiting a ON a.tenant = u.tenant
ORDER BY u.tenant
