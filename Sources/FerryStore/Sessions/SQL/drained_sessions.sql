-- Reads sessions that have drained and of which nobody has been told, in the order of their names. Locks
-- nothing. $1 tenant and $2 name behind which it begins, $3 how many at most.
SELECT tenant, name FROM sessions WHERE is_drained AND (tenant, name) > ($1::text, $2::text)
ORDER BY tenant, name LIMIT $3::integer
