-- Counts the configured sessions of a tenant. Locks nothing. $1 tenant.
SELECT count(*) FROM session_configurations WHERE tenant = $1::text
