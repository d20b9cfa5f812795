-- Creates or replaces a credential of a session. Run after lock_session_epoch.sql in the same transaction.
-- Locks: session_epoch, then the session's row, then the credential's row.
-- $1 tenant, $2 session, $3 name, $4 expected revision, 0 for a credential without a row, $5 whether it is
-- kept for later sessions of the same name, $6 the credential, $7 sealed secrets, $8 now.
-- Returns the credential, columns as in read_credential.sql; no row if it has changed meanwhile, or if the
-- session is not configured or invalidated.
WITH next AS (
    UPDATE session_epoch SET epoch = epoch + 1 WHERE is_only RETURNING epoch
), owner AS (
    UPDATE session_configurations c SET epoch = next.epoch FROM next
    WHERE c.tenant = $1::text AND c.name = $2::text AND c.invalidation IS NULL
    RETURNING c.name
)
INSERT INTO session_credentials AS k (
    tenant, session, name, revision, created_at, updated_at, is_permanent, credential, secrets)
SELECT $1::text, $2::text, $3::text, 1, $8::timestamptz, $8::timestamptz, $5::boolean, $6::text, $7::bytea
FROM owner
WHERE $4::integer = 0
    OR EXISTS (
        SELECT FROM session_credentials
        WHERE tenant = $1::text AND session = $2::text AND name = $3::text)
ON CONFLICT (tenant, session, name) DO UPDATE SET
    revision = k.revision + 1, updated_at = excluded.updated_at, is_permanent = excluded.is_permanent,
    credential = excluded.credential, secrets = excluded.secrets
WHERE k.revision = $4::integer
RETURNING k.name, k.revision, k.created_at, k.updated_at, k.credential, k.secrets
