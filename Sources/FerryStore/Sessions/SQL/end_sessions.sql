-- Ends invalidated sessions without unfinished jobs, writes the event about it, and removes the credentials
-- that are kept for the session only. They cannot get new jobs (expect_session_epoch).
-- Locks: the sessions' rows; skips rows that another transaction has locked. Then their credentials.
-- $1 now, $2 maximum number of sessions. Returns tenants and names.
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
), forgotten AS (
    DELETE FROM session_credentials k USING ended e
    WHERE k.tenant = e.tenant AND k.session = e.name AND NOT k.is_permanent
)
SELECT tenant, name FROM ended
