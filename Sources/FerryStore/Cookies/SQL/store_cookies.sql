-- Stores and removes cookies of sessions, and removes those of the same sessions that have expired. Sessions
-- that were removed, or created anew, are left out.
-- Locks: the rows of cookie_jars in the order of tenant and session, then the cookies.
-- Arrays, one entry for each change: $1 tenants, $2 names of the sessions, $3 when these were created, $4
-- keys (Cookie.Key in the source), $5 sealed cookies, null: removed, $6 when they expire, null: never.
-- $7 now.
-- Returns tenant, name and new version of each session.
WITH change AS MATERIALIZED (
    SELECT DISTINCT ON (x.tenant, x.session, x.key) x.tenant, x.session, sha256(x.key) AS key, x.cookie,
        x.expires_at
    FROM unnest($1::text[], $2::text[], $3::timestamptz[], $4::bytea[], $5::bytea[], $6::timestamptz[])
        AS x (tenant, session, created_at, key, cookie, expires_at)
    JOIN session_configurations s
        ON s.tenant = x.tenant AND s.name = x.session AND s.created_at = x.created_at
), jar AS (
    INSERT INTO cookie_jars AS j (tenant, session, version, removal)
    SELECT tenant, session, 1, CASE WHEN bool_or(cookie IS NULL) THEN 1 ELSE 0 END
    FROM change
    GROUP BY tenant, session
    ORDER BY tenant, session
    ON CONFLICT (tenant, session) DO UPDATE SET
        version = j.version + 1,
        removal = CASE WHEN excluded.removal > 0 THEN j.version + 1 ELSE j.removal END
    RETURNING j.tenant, j.session, j.version
), gone AS (
    DELETE FROM cookies c USING change x
    WHERE x.cookie IS NULL AND c.tenant = x.tenant AND c.session = x.session AND c.key = x.key
), expired AS (
    DELETE FROM cookies c USING jar j
    WHERE c.tenant = j.tenant AND c.session = j.session AND c.expires_at <= $7::timestamptz
        AND NOT EXISTS (
            SELECT FROM change x WHERE x.tenant = c.tenant AND x.session = c.session AND x.key = c.key)
), kept AS (
    INSERT INTO cookies AS c (tenant, session, key, version, expires_at, cookie)
    SELECT x.tenant, x.session, x.key, j.version, x.expires_at, x.cookie
    FROM change x JOIN jar j ON j.tenant = x.tenant AND j.session = x.session
    WHERE x.cookie IS NOT NULL
    ON CONFLICT (tenant, session, key) DO UPDATE SET
        version = excluded.version, expires_at = excluded.expires_at, cookie = excluded.cookie
)
SELECT tenant, session, version FROM jar
