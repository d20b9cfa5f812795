-- Reads a session. Locks nothing. $1 tenant, $2 name.
-- Returns one row: columns as in changed_sessions.sql, null if the session is not configured; column 12 is
-- whether it has ever had an event.
SELECT c.tenant, c.name, c.revision, c.epoch, c.created_at, c.updated_at, c.configuration, c.secrets,
    c.invalidation, c.invalidated_at, c.ended_at, c.flushed_at,
    EXISTS (SELECT FROM sessions s WHERE s.tenant = $1::text AND s.name = $2::text)
FROM (SELECT) one LEFT JOIN session_configurations c ON c.tenant = $1::text AND c.name = $2::text
