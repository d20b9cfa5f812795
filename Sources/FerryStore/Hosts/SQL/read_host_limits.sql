-- Reads the scopes whose requests are limited now: origin, tenant and path (empty: every one), requests at
-- once or null, until when they are held or null, at most two years ahead (the same answer every time),
-- whether an operator has paused the host, requests per second or null. Locks nothing. $1 how many at most,
-- $2 until when a paused host is held.
SELECT origin, tenant, path, connection_limit,
    CASE WHEN blocked_until > now() THEN least(blocked_until, date_trunc('year', now()) + '2 years') END,
    coalesce(blocked_until >= $2::timestamptz, false), request_rate
FROM host_limits
WHERE connection_limit IS NOT NULL OR request_rate IS NOT NULL OR blocked_until > now()
ORDER BY origin, tenant, path LIMIT $1::integer
