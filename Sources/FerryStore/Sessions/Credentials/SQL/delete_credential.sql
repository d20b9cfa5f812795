-- Removes a credential of a session. Run after lock_session_epoch.sql in the same transaction.
-- Locks: the credential's row, then session_epoch, then the session's row.
-- $1 tenant, $2 session, $3 name, $4 expected revision. Returns the name; no row if the credential has
-- another revision.
WITH gone AS (
    DELETE FROM session_credentials
    WHERE tenant = $1::text AND session = $2::text AND name = $3::text AND revision = $4::integer
    RETURNING name
), next AS (
    UPDATE session_epoch SET epoch = epoch + 1 WHERE is_only AND EXISTS (SELECT FROM gone) RETURNING epoch
), owner AS (
    UPDATE session_configurations c SET epoch = next.epoch FROM next
    WHERE c.tenant = $1::text AND c.name = $2::text
)
SELECT name FROM gone
