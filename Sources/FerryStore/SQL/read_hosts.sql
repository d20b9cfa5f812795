-- Reads the origins whose use is limited now: origin, transfers at once or null, until when it is backed off
-- or null, at most a year ahead. Locks nothing. $1 how many at most.
SELECT origin, connection_limit,
    CASE WHEN blocked_until > now() THEN least(blocked_until, now() + '1 year') END
FROM hosts
WHERE (connection_limit IS NOT NULL OR blocked_until IS NOT NULL)
    AND (connection_limit IS NOT NULL OR blocked_until > now())
ORDER BY origin LIMIT $1::integer
