-- Reads jobs that may start in a good moment: tenants take turns, and so do the sessions of a tenant; within
-- a session those first that have waited longest. Leaves out what no open window has room for, and what could
-- not begin because its host is held or away. By one look at each session that has such jobs, and the jobs of
-- each that a fair share of 1,000 leaves, one at least. Locks: rows that nobody else has locked. $1 how many
-- at most, $2 now, $3 the bytes of the largest job that there is room for, or null, $4 what a job that names
-- none counts for.
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
                    AND job_awaits_host(j.spec, j.error))
        ORDER BY j.discretionary_from, j.id
        LIMIT greatest(1, least($1::integer, 1000 / (SELECT count(*) FROM owners)))) q
), placed AS MATERIALIZED (
    -- Nobody remembers whose turn it was: chance decides who is first.
    SELECT id, row_number() OVER (PARTITION BY tenant ORDER BY turn, random()) AS place FROM found
)
SELECT j.id, j.discretionary_bytes FROM placed p JOIN jobs j ON j.id = ANY (ARRAY[p.id])
-- As text: no plan is to start from the index of all that wait so.
WHERE j.waiting_for::text = 'discretionary'
ORDER BY p.place, random() LIMIT $1::integer
FOR UPDATE OF j SKIP LOCKED
