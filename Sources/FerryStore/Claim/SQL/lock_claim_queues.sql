-- Locks narrow claim queues, each with the widest scope that limits it, so that no other transaction leases
-- from what that scope limits. Leaves out claim queues that another transaction has locked, and those whose
-- scope or session a claim queue before them takes. Claim queues of one session and origin for several paths
-- or nodes are counted together: the oldest stands for all. A statement of its own, so that read_permits.sql
-- sees what the holders before have committed.
-- Locks: the claim queues, then rows of host_limits, in the order of their names. $1 claim queues.
WITH asked AS MATERIALIZED (
    SELECT l.id, l.origin, u.place, (
        -- An expression, so that the plan uses the index of names, not that of numbers.
        SELECT max(s.id + 0) FROM claim_queues s
        WHERE s.tenant = l.tenant AND s.session = l.session AND s.origin = l.origin) AS eldest,
        g.tenant AS guard_tenant, g.path AS guard_path
    FROM unnest($1::bigint[]) WITH ORDINALITY AS u(queue, place)
    JOIN claim_queues l ON l.id = ANY (ARRAY[u.queue])
    LEFT JOIN LATERAL (
        SELECT s.tenant, s.path FROM host_limits s
        WHERE s.origin = l.origin AND s.tenant IN ('', l.tenant) AND s.path IN ('', l.path)
        ORDER BY s.tenant, s.path LIMIT 1) g ON true
), locked AS MATERIALIZED (
    SELECT l.id FROM claim_queues l WHERE l.id = ANY (ARRAY(SELECT eldest FROM asked)) ORDER BY l.id
    FOR NO KEY UPDATE SKIP LOCKED
), guard AS MATERIALIZED (
    SELECT s.origin, s.tenant, s.path FROM host_limits s
    WHERE s.origin = ANY (ARRAY(SELECT origin FROM asked)) AND (s.origin, s.tenant, s.path) IN (
        SELECT a.origin, a.guard_tenant, a.guard_path FROM asked a JOIN locked l ON l.id = a.eldest)
    ORDER BY s.origin, s.tenant, s.path
    FOR NO KEY UPDATE SKIP LOCKED
), taken AS MATERIALIZED (
    SELECT a.* FROM asked a JOIN locked l ON l.id = a.eldest
    WHERE a.guard_tenant IS NULL
        OR (a.origin, a.guard_tenant, a.guard_path) IN (SELECT origin, tenant, path FROM guard)
)
SELECT set_config('ferry.claim_queues', coalesce(string_agg(t.id::text, ','), ''), true) FROM taken t
WHERE NOT EXISTS (
    SELECT FROM taken b WHERE b.place < t.place AND (
        b.eldest = t.eldest
        OR (b.origin, b.guard_tenant, b.guard_path) = (t.origin, t.guard_tenant, t.guard_path)))
