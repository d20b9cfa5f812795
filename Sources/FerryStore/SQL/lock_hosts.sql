-- Reads hosts in order to change them: those of $1, and of the others at most $3 that are due at $2, and at
-- most $4 that are to be probed by then, the longest due first. Locks: the rows of $1 in order of their
-- names, then due ones that nobody else has locked. Returns the origin, its condition, how many connections
-- attempts have there, and whether jobs wait until it can be reached.
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
), running AS MATERIALIZED (
    SELECT origin, count(*)::integer AS count FROM jobs WHERE state = 'running' GROUP BY origin
)
SELECT c.origin, c.condition,
    coalesce((SELECT r.count FROM running r WHERE r.origin = c.origin), 0) + coalesce((
        SELECT sum(o.count) FROM open_connections o WHERE o.origin = c.origin), 0)::integer,
    EXISTS (
        SELECT FROM jobs j
        WHERE j.state = 'waiting' AND j.waiting_for = 'connectivity' AND j.origin = c.origin)
FROM chosen c
