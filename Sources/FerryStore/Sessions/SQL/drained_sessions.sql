-- Reads sessions without unfinished jobs whose final event is not written yet, in the order of their names.
-- Locks nothing.
-- $1 tenant and $2 name after which to begin, $3 maximum number of sessions.
SELECT tenant, name FROM sessions WHERE is_drained AND (tenant, name) > ($1::text, $2::text)
ORDER BY tenant, name LIMIT $3::integer
