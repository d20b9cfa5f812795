-- Finds claim queues by their names, and creates missing ones. Locks: their rows.
-- $1 tenants, $2 sessions, $3 origins, empty for the wide claim queue, $4 the only nodes, or null: any, $5
-- paths, empty: every path that has no limit of its own. Returns number, tenant, session, origin, node and
-- path of each, once.
INSERT INTO claim_queues AS l (id, tenant, session, origin, home, path)
SELECT CASE WHEN u.origin = '' THEN nextval('claim_queue_ids') ELSE -nextval('claim_queue_ids') END, u.tenant,
    u.session, u.origin, u.home, u.path
FROM (
    SELECT DISTINCT u.tenant, u.session, u.origin, u.path, coalesce(u.home::text, '') AS home
    FROM unnest($1::text[], $2::text[], $3::text[], $4::uuid[], $5::text[])
        AS u(tenant, session, origin, home, path)
    ORDER BY u.tenant, u.session, u.origin, u.path, home
) AS u
ON CONFLICT (tenant, session, origin, path, home) DO UPDATE SET used_at = excluded.used_at
RETURNING id, tenant, session, origin, nullif(home, '')::uuid, path
