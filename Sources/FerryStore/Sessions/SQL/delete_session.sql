-- Removes a session that has ended. After lock_session_epoch.sql in the same transaction. Locks: the row,
-- session_epoch. $1 tenant, $2 name, $3 the revision that it has. Returns the name; no row: it is not so.
WITH gone AS (
    DELETE FROM session_configurations
    WHERE tenant = $1::text AND name = $2::text AND revision = $3::integer AND ended_at IS NOT NULL
    RETURNING name
), next AS (
    UPDATE session_epoch SET epoch = epoch + 1, removal = epoch + 1
    WHERE is_only AND EXISTS (SELECT FROM gone)
)
SELECT name FROM gone
