-- Reads the cookies of sessions that have changed since the versions that a node knows. Locks nothing.
-- Arrays, one entry for each session: $1 tenants, $2 names, $3 known versions, 0 for none.
-- Returns for each session with a newer version: its index from 1, the version, whether the rows are all its
-- cookies because some were removed, and a sealed cookie or null.
SELECT x.index, j.version, j.removal > x.version, c.cookie
FROM unnest($1::text[], $2::text[], $3::bigint[]) WITH ORDINALITY AS x (tenant, session, version, index)
JOIN cookie_jars j ON j.tenant = x.tenant AND j.session = x.session AND j.version > x.version
LEFT JOIN cookies c ON c.tenant = j.tenant AND c.session = j.session
    AND (c.version > x.version OR j.removal > x.version)
