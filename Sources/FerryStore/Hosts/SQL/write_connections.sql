-- Writes how many connections attempts hold beyond the one that came with their lease. Locks: their rows.
-- One array element an attempt and scope: $1 origins, $2 jobs, $3 attempts, $4 tenants, $5 sessions, $6
-- number of connections, $7 paths.
WITH told AS (
    SELECT * FROM unnest(
        $1::text[], $2::uuid[], $3::integer[], $4::text[], $5::text[], $6::integer[], $7::text[]
    ) AS u(origin, job, attempt, tenant, session, count, path)
), gone AS (
    DELETE FROM connections c USING told u
    WHERE u.count = 0 AND c.origin = u.origin AND c.path = u.path AND c.job = u.job AND c.attempt = u.attempt
)
INSERT INTO connections AS c (origin, path, job, attempt, tenant, session, count)
SELECT origin, path, job, attempt, tenant, session, count FROM told WHERE count > 0
ON CONFLICT (origin, path, job, attempt) DO UPDATE SET count = excluded.count
