-- Finds lots by their names, and makes those that are not there. Locks: their rows. $1 tenants, $2 sessions,
-- $3 origins, empty for the wide lot, $4 the nodes that they are for, or null: any. Returns number, tenant,
-- session, origin and node of each, once.
INSERT INTO lots AS l (id, tenant, session, origin, home)
SELECT CASE WHEN u.origin = '' THEN nextval('lot_numbers') ELSE -nextval('lot_numbers') END, u.tenant,
    u.session, u.origin, u.home
FROM (
    SELECT DISTINCT u.tenant, u.session, u.origin, coalesce(u.home::text, '') AS home
    FROM unnest($1::text[], $2::text[], $3::text[], $4::uuid[]) AS u(tenant, session, origin, home)
    ORDER BY u.tenant, u.session, u.origin, home
) AS u
ON CONFLICT (tenant, session, origin, home) DO UPDATE SET used_at = excluded.used_at
RETURNING id, tenant, session, origin, nullif(home, '')::uuid
