-- Removes a schedule; its jobs stay. Locks: the row. $1 id, $2 tenant, $3 the revision that it has to have,
-- or null for any. Returns the id; no row: it is not there, or has another revision.
DELETE FROM schedules
WHERE id = $1::uuid AND tenant = $2::text AND revision = coalesce($3::integer, revision)
RETURNING id
