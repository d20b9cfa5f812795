-- Reads the origins whose use is limited now: origin, transfers at once or null, until when it is backed off
-- or null, at most two years ahead (the same answer every time), whether an operator has paused it,
-- transfers begun a second or null. Locks nothing. $1 how many at most, $2 until when paused ones are backed
-- off.
SELECT origin, connection_limit,
    CASE WHEN blocked_until > now() THEN least(blocked_until, date_trunc('year', now()) + '2 years') END,
    coalesce(blocked_until >= $2::timestamptz, false), request_rate
FROM hosts
WHERE (connection_limit IS NOT NULL OR blocked_until IS NOT NULL OR request_rate IS NOT NULL)
    AND (connection_limit IS NOT NULL OR request_rate IS NOT NULL OR blocked_until > now())
ORDER BY origin LIMIT $1::integer
