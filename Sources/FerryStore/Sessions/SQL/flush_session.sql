-- Makes later jobs of a session use new connections. Run after lock_session_epoch.sql in the same
-- transaction.
-- Locks: session_epoch, then the session's row.
-- $1 tenant, $2 name, $3 now.
-- Returns the session, columns as in changed_sessions.sql; no row if it is not configured.
WITH next AS (
    UPDATE session_epoch SET epoch = epoch + 1 WHERE is_only RETURNING epoch
)
UPDATE session_configurations s SET epoch = next.epoch, flushed_at = $3::timestamptz
FROM next
WHERE s.tenant = $1::text AND s.name = $2::text
RETURNING s.tenant, s.name, s.revision, s.epoch, s.created_at, s.updated_at, s.configuration, s.secrets,
    s.invalidation, s.invalidated_at, s.ended_at, s.flushed_at
