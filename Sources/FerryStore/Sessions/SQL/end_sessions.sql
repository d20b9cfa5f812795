-- Ends invalidated sessions that have no unfinished job, and says so. Nobody can give them one any more: see
-- migration 0008. Locks: their rows, unless somebody else has them. $1 now, $2 how many at most. Returns
-- tenants and names.
WITH ended AS (
    UPDATE session_configurations s SET
        ended_at = $1::timestamptz, updated_at = $1::timestamptz, revision = s.revision + 1
    WHERE (s.tenant, s.name) IN (
        SELECT c.tenant, c.name FROM session_configurations c
        WHERE c.invalidation IS NOT NULL AND c.ended_at IS NULL
            AND NOT EXISTS (
                SELECT FROM jobs j
                WHERE j.tenant = c.tenant AND j.session = c.name AND j.session <> 'default')
        ORDER BY c.invalidated_at LIMIT $2::integer
        FOR UPDATE SKIP LOCKED)
    RETURNING s.tenant, s.name
), told AS (
    INSERT INTO event_inbox (tenant, session, packed)
    SELECT tenant, name, event_pack(
        13, 0, '00000000-0000-0000-0000-000000000000', $1::timestamptz, 0, 0, NULL, NULL, NULL)
    FROM ended
)
SELECT tenant, name FROM ended
