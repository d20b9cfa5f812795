-- Removes a session that has ended. Run after lock_session_epoch.sql in the same transaction.
-- Locks: the session's row, then session_epoch.
-- $1 tenant, $2 name, $3 expected revision. Returns the name; no row if the session has not ended or has
-- another revision.
WITH gone AS (
    DELETE FROM session_configurations
    WHERE tenant = $1::text AND name = $2::text AND revision = $3::integer AND ended_at IS NOT NULL
    RETURNING name
), next AS (
    UPDATE session_epoch SET epoch = epoch + 1, removal = epoch + 1
    WHERE is_only AND EXISTS (SELECT FROM gone)
)
SELECT name FROM gone
