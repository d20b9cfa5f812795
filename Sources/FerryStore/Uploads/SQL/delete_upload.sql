-- Deletes an upload. Locks: the row. $1 tenant, $2 id. Returns a row if it was deleted.
DELETE FROM uploads WHERE id = $2::uuid AND (tenant = $1::text) IS TRUE
RETURNING id
