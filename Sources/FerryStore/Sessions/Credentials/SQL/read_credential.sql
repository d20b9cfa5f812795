-- Reads a credential of a session. Locks nothing. $1 tenant, $2 session, $3 name.
SELECT name, revision, created_at, updated_at, credential, secrets FROM session_credentials
WHERE tenant = $1::text AND session = $2::text AND name = $3::text
