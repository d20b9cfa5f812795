-- Removes a schedule; its jobs stay. Locks: the row. $1 id, $2 revision. Returns the id; no row: it has
-- changed meanwhile.
DELETE FROM schedules WHERE id = $1::uuid AND revision = $2::integer RETURNING id
