-- Reads a page of a tenant's sessions by name: configured ones, those that have had events, and the default
-- one. Locks nothing.
-- $1 tenant, $2 lower bound of names (exclusive), $3 maximum number of sessions.
-- Columns as in changed_sessions.sql, null if the session is not configured; column 12 is the name.
SELECT c.tenant, c.name, c.revision, c.epoch, c.created_at, c.updated_at, c.configuration, c.secrets,
    c.invalidation, c.invalidated_at, c.ended_at, c.flushed_at, n.name
FROM (
    SELECT name FROM (
        (SELECT name FROM session_configurations WHERE tenant = $1::text AND name > $2::text
        ORDER BY name LIMIT $3::integer)
        UNION
        (SELECT name FROM sessions WHERE tenant = $1::text AND name > $2::text
        ORDER BY name LIMIT $3::integer)
        UNION
        SELECT 'default' WHERE 'default' > $2::text
    ) a ORDER BY name LIMIT $3::integer
) n LEFT JOIN session_configurations c ON c.tenant = $1::text AND c.name = n.name
ORDER BY n.name
