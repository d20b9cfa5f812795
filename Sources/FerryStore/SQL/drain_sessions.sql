-- Gives the next number to the end of the events of sessions that have drained: no job of theirs is
-- unfinished, no event waits for its number, and no delivery is on its way; one to an endpoint that is
-- disabled or deleted is not. Locks: the sessions, in the order
-- of their names. $1 how many at most. Returns their tenants, names and the numbers.
UPDATE sessions u SET last_sequence = u.last_sequence + 1, is_drained = false
FROM (
    SELECT s.tenant, s.name FROM sessions s
    WHERE s.is_drained
        AND NOT EXISTS (
            SELECT FROM deliveries d
            WHERE d.tenant = s.tenant AND d.session = s.name AND d.state = 'pending'
                AND (d.endpoint IS NULL
                    OR (SELECT w.is_enabled FROM webhooks w WHERE w.id = d.endpoint) IS TRUE))
        AND NOT EXISTS (SELECT FROM event_inbox i WHERE i.tenant = s.tenant AND i.session = s.name)
    ORDER BY s.tenant, s.name LIMIT $1::integer FOR UPDATE
) d
WHERE u.tenant = d.tenant AND u.name = d.name
RETURNING u.tenant, u.name, u.last_sequence
