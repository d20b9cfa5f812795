-- Reads a page of a session's credentials by name. Locks nothing.
-- $1 tenant, $2 session, $3 lower bound of names (exclusive), $4 maximum number of credentials.
-- Columns as in read_credential.sql.
SELECT name, revision, created_at, updated_at, credential, secrets FROM session_credentials
WHERE tenant = $1::text AND session = $2::text AND name > $3::text
ORDER BY name LIMIT $4::integer
