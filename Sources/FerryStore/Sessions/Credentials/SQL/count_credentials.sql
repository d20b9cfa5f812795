-- Counts the credentials of a session, and of all sessions of its tenant. Locks nothing.
-- $1 tenant, $2 session.
SELECT count(*) FILTER (WHERE session = $2::text), count(*) FROM session_credentials WHERE tenant = $1::text
