-- Reads all credentials of the sessions that have changed since epoch $1, or of all sessions if one was
-- removed since. Locks nothing.
-- Columns 0 to 5 as in read_credential.sql, 6 tenant, 7 session.
WITH changed AS MATERIALIZED (
    SELECT c.tenant, c.name
    FROM session_epoch e LEFT JOIN session_configurations c
        ON c.epoch > CASE WHEN e.removal > $1::bigint THEN -1 ELSE $1::bigint END
    WHERE e.is_only
)
SELECT k.name, k.revision, k.created_at, k.updated_at, k.credential, k.secrets, c.tenant, c.name
FROM changed c CROSS JOIN LATERAL (
    SELECT * FROM session_credentials s WHERE s.tenant = c.tenant AND s.session = c.name OFFSET 0
) k
ORDER BY k.name
