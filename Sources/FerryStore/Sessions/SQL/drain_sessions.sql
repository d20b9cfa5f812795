-- Gives the next number to the end of the events of sessions that have drained: no job of theirs is
-- unfinished, no event waits for its number, and no delivery is on its way to a job's own webhook or to an
-- endpoint that is enabled. Each of these is asked for by name, so that what waits for an endpoint that is
-- disabled is never read. Locks: the sessions, in the order of their names. One array element a session: $1
-- tenants, $2 names. $3 the position up to which the inbox is empty. Returns the tenants, names and numbers
-- of those that are told.
UPDATE sessions u SET last_sequence = u.last_sequence + 1, is_drained = false
FROM (
    SELECT s.tenant, s.name FROM unnest($1::text[], $2::text[]) AS n(tenant, name)
    JOIN sessions s ON s.tenant = n.tenant AND s.name = n.name
    WHERE s.is_drained
        AND (
            SELECT true FROM deliveries d
            WHERE d.tenant = s.tenant AND d.session = s.name AND d.endpoint IS NULL AND d.state = 'pending'
            LIMIT 1) IS NULL
        AND (
            SELECT true FROM webhooks w CROSS JOIN LATERAL (
                SELECT FROM deliveries d
                WHERE d.tenant = s.tenant AND d.session = s.name AND d.endpoint = w.id AND d.state = 'pending'
                LIMIT 1
            ) d WHERE w.tenant = s.tenant AND w.is_enabled AND w.deleted_at IS NULL
            LIMIT 1) IS NULL
        AND NOT EXISTS (
            SELECT FROM event_inbox i
            WHERE i.position > $3::bigint AND i.tenant = s.tenant AND i.session = s.name)
    ORDER BY s.tenant, s.name FOR UPDATE OF s
) d
WHERE u.tenant = d.tenant AND u.name = d.name
RETURNING u.tenant, u.name, u.last_sequence
