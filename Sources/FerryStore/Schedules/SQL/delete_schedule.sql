-- Removes a schedule; its jobs stay. Locks: the row.
-- $1 id, $2 tenant, $3 expected revision or null for any. Returns the id; no row if there is none, or it has
-- another revision.
DELETE FROM schedules
WHERE id = $1::uuid AND tenant = $2::text AND revision = coalesce($3::integer, revision)
RETURNING id
