-- Reads the scopes whose requests are limited now. Locks nothing.
-- $1 maximum number of scopes, $2 end of the hold of a paused host.
-- Returns origin, tenant and path (empty: all), connection limit or null, end of the hold or null, whether an
-- operator has paused the host, and requests per second or null. The end of a hold is at most two years
-- ahead, a fixed date each year, so that repeated reads are equal.
SELECT origin, tenant, path, connection_limit,
    CASE WHEN blocked_until > now() THEN least(blocked_until, date_trunc('year', now()) + '2 years') END,
    coalesce(blocked_until >= $2::timestamptz, false), request_rate
FROM host_limits
WHERE connection_limit IS NOT NULL OR request_rate IS NOT NULL OR blocked_until > now()
ORDER BY origin, tenant, path LIMIT $1::integer
