-- Reads discretionary jobs that may start now, fairly: tenants take turns, and so do the sessions of a
-- tenant; within a session the jobs that have waited longest come first. Excludes jobs that no open window
-- has room for, jobs whose host is held, and jobs that wait for an unreachable host.
-- Looks once at each session that has such jobs. Of each session it reads an equal share of 1,000 jobs, at
-- least one.
-- Locks: the returned rows; skips rows that another transaction has locked.
-- $1 maximum number of jobs, $2 now, $3 size in bytes of the largest job that a window has room for, or null,
-- $4 bytes to assume for a job that states none.
WITH RECURSIVE owners AS (
    (SELECT tenant, session FROM jobs WHERE state = 'waiting' AND waiting_for = 'discretionary'
    ORDER BY tenant, session LIMIT 1)
    UNION ALL
    SELECT n.tenant, n.session FROM owners o CROSS JOIN LATERAL (
        SELECT tenant, session FROM jobs
        WHERE state = 'waiting' AND waiting_for = 'discretionary'
            AND (tenant, session) > (o.tenant, o.session)
        ORDER BY tenant, session LIMIT 1) n
), found AS MATERIALIZED (
    SELECT o.tenant, q.id, row_number() OVER (
        PARTITION BY o.tenant, o.session ORDER BY q.discretionary_from, q.id) AS turn
    FROM owners o CROSS JOIN LATERAL (
        SELECT j.id, j.discretionary_from FROM jobs j
        WHERE j.state = 'waiting' AND j.waiting_for = 'discretionary' AND j.tenant = o.tenant
            AND j.session = o.session AND j.discretionary_from <= $2::timestamptz
            AND ($3::bigint IS NULL OR coalesce(j.discretionary_bytes, $4::bigint) <= $3::bigint)
            AND NOT EXISTS (
                SELECT FROM host_limits l
                WHERE l.origin = j.origin AND l.tenant IN ('', j.tenant) AND l.path IN ('', j.scope_path)
                    AND l.blocked_until > $2::timestamptz)
            AND NOT EXISTS (
                SELECT FROM hosts h WHERE h.origin = j.origin AND h.unreachable IS NOT NULL
                    AND j.awaits_host AND NOT j.was_lost)
        ORDER BY j.discretionary_from, j.id
        LIMIT greatest(1, least($1::integer, 1000 / (SELECT count(*) FROM owners)))) q
), placed AS MATERIALIZED (
    -- No turn is stored between calls, so the order of tenants and sessions is random.
    SELECT id, row_number() OVER (PARTITION BY tenant ORDER BY turn, random()) AS place FROM found
)
SELECT j.id, j.discretionary_bytes FROM placed p JOIN jobs j ON j.id = ANY (ARRAY[p.id])
-- Compared as text, so that no plan starts from the index of all waiting discretionary jobs.
WHERE j.waiting_for::text = 'discretionary'
ORDER BY p.place, random() LIMIT $1::integer
FOR UPDATE OF j SKIP LOCKED
