-- Creates a session or replaces its configuration. Run after lock_session_epoch.sql in the same transaction.
-- Locks: session_epoch, then the session's row.
-- $1 tenant, $2 name, $3 expected revision, 0 for a session without a row, $4 configuration, $5 sealed
-- secrets or null, $6 now, $7 whether endpoints receive events of the session.
-- Returns the session, columns as in changed_sessions.sql; no row if it has changed meanwhile.
WITH next AS (
    UPDATE session_epoch SET epoch = epoch + 1 WHERE is_only RETURNING epoch
)
INSERT INTO session_configurations AS s (
    tenant, name, revision, epoch, created_at, updated_at, configuration, secrets,
    sends_launch_events)
SELECT $1::text, $2::text, 1, epoch, $6::timestamptz, $6::timestamptz, $4::text, $5::bytea,
    $7::boolean
FROM next
WHERE $3::integer = 0
    OR EXISTS (SELECT FROM session_configurations WHERE tenant = $1::text AND name = $2::text)
ON CONFLICT (tenant, name) DO UPDATE SET
    revision = s.revision + 1, epoch = excluded.epoch, updated_at = excluded.updated_at,
    configuration = excluded.configuration, secrets = excluded.secrets,
    sends_launch_events = excluded.sends_launch_events
WHERE s.revision = $3::integer AND s.invalidation IS NULL
RETURNING s.tenant, s.name, s.revision, s.epoch, s.created_at, s.updated_at, s.configuration, s.secrets,
    s.invalidation, s.invalidated_at, s.ended_at, s.flushed_at
