-- Reads hosts in order to change them: those of $1, at most $3 reachable ones that are due at $2, and at most
-- $4 unreachable ones that are to be probed at $2; those due longest come first.
-- Locks: the rows of $1 in order of their origins, then due rows; skips due rows that another transaction has
-- locked.
-- Returns the origin, its condition, whether jobs wait until it is reachable, and the connections of running
-- attempts by scope: tenants, paths, counts.
WITH mine AS (
    SELECT origin, condition FROM hosts WHERE origin = ANY ($1::text[]) ORDER BY origin FOR UPDATE
), due AS (
    SELECT origin, condition FROM hosts
    WHERE due_at <= $2::timestamptz AND unreachable IS NULL AND origin <> ALL ($1::text[])
    ORDER BY due_at LIMIT $3::integer FOR UPDATE SKIP LOCKED
), away AS (
    SELECT origin, condition FROM hosts
    WHERE due_at <= $2::timestamptz AND unreachable IS NOT NULL AND origin <> ALL ($1::text[])
    ORDER BY due_at LIMIT $4::integer FOR UPDATE SKIP LOCKED
), chosen AS (
    SELECT origin, condition FROM mine UNION ALL SELECT origin, condition FROM due
    UNION ALL SELECT origin, condition FROM away
), used AS MATERIALIZED (
    SELECT origin, tenant, path, sum(count)::integer AS count FROM (
        SELECT origin, tenant, scope_path AS path, count(*) FROM jobs
        WHERE state = 'running' AND node IS NOT NULL
        GROUP BY origin, tenant, scope_path
        UNION ALL
        SELECT o.origin, o.tenant, o.path, o.count FROM open_connections o
        WHERE o.origin = ANY (ARRAY(SELECT origin FROM chosen))) AS all_used
    WHERE origin = ANY (ARRAY(SELECT origin FROM chosen))
    GROUP BY origin, tenant, path
)
SELECT c.origin, c.condition,
    EXISTS (
        SELECT FROM jobs j
        WHERE j.state = 'waiting' AND j.waiting_for = 'connectivity' AND j.origin = c.origin),
    u.tenants, u.paths, u.counts
FROM chosen c CROSS JOIN LATERAL (
    SELECT array_agg(tenant) AS tenants, array_agg(path) AS paths, array_agg(count) AS counts
    FROM used WHERE origin = c.origin) u
