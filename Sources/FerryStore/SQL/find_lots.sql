-- Finds lots by their names, and makes those that are not there. Locks: their rows. $1 tenants, $2 sessions,
-- $3 origins, empty for the wide lot. Returns number, tenant, session and origin of each, once.
INSERT INTO lots AS l (id, tenant, session, origin)
SELECT CASE WHEN u.origin = '' THEN nextval('lot_numbers') ELSE -nextval('lot_numbers') END, u.tenant,
    u.session, u.origin
FROM (
    SELECT DISTINCT u.tenant, u.session, u.origin
    FROM unnest($1::text[], $2::text[], $3::text[]) AS u(tenant, session, origin)
    ORDER BY u.tenant, u.session, u.origin
) AS u
ON CONFLICT (tenant, session, origin) DO UPDATE SET used_at = excluded.used_at
RETURNING id, tenant, session, origin
