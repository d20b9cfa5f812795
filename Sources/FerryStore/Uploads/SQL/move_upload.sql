-- Notes that the bytes of a complete upload are in an object. Locks: the row.
-- $1 id, $2 key of the object. Returns a row if the upload exists and its bytes were in a file.
UPDATE uploads SET object = $2::text WHERE id = $1::uuid AND is_complete AND object IS NULL RETURNING id
