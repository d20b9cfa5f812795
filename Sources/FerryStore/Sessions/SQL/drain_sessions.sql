-- Gives the final event of drained sessions its sequence number. A session has drained if no job is
-- unfinished, no event waits for its number, and no delivery is pending to a job's own webhook or to an
-- enabled endpoint. Each of these is looked up by name, so that deliveries that wait for a disabled endpoint
-- are never read. Compared as in list_jobs.sql, so that no plan starts from the oldest pending delivery.
-- Locks: the sessions, in the order of their names.
-- One array element a session: $1 tenants, $2 names. $3 low watermark of the inbox: it is empty up to this
-- position. $4 now.
-- Returns tenants, names and sequence numbers of the sessions that have drained, and the times that their
-- events before this one show, or null.
UPDATE sessions u SET
    last_sequence = u.last_sequence + 1, is_drained = false,
    last_at = greatest(u.last_at, $4::timestamptz)
FROM (
    SELECT l.tenant, l.name, l.last_at FROM (
        SELECT n.tenant, n.name FROM unnest($1::text[], $2::text[]) AS n(tenant, name)
        ORDER BY n.tenant, n.name
    ) n CROSS JOIN LATERAL (
        SELECT s.tenant, s.name, s.last_at FROM sessions s
        -- An expression, so that the plan does not read the index of all drained sessions.
        WHERE s.tenant = n.tenant AND s.name = n.name AND coalesce(s.is_drained, false)
            AND (
                SELECT true FROM deliveries d
                WHERE d.tenant = ANY (ARRAY[s.tenant]) AND d.session = s.name AND d.endpoint IS NULL
                    AND d.state = 'pending'
                ORDER BY d.tenant, d.session, d.endpoint LIMIT 1) IS NULL
            AND (
                SELECT true FROM webhooks w CROSS JOIN LATERAL (
                    SELECT FROM deliveries d
                    WHERE d.tenant = s.tenant AND d.session = s.name AND d.endpoint = w.id
                        AND d.state = 'pending'
                    LIMIT 1
                ) d WHERE w.tenant = s.tenant AND w.is_enabled AND w.deleted_at IS NULL
                LIMIT 1) IS NULL
            AND NOT EXISTS (
                SELECT FROM event_inbox i
                WHERE i.position > $3::bigint AND i.tenant = s.tenant AND i.session = s.name)
        FOR UPDATE OF s
    ) l
) d
WHERE u.tenant = d.tenant AND u.name = d.name
RETURNING u.tenant, u.name, u.last_sequence, d.last_at
