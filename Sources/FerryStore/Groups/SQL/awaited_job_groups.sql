-- Reads which groups exist, and whether an unfinished job depends on each. Locks nothing.
-- $1 tenant, $2 names.
SELECT g.name, is_awaited(g.id) FROM unnest($2::text[]) AS u(name) CROSS JOIN LATERAL (
    SELECT id, name FROM job_groups WHERE tenant = $1::text AND name = u.name LIMIT 1) AS g
