-- Reads which uploads exist and have their bytes in a file. Locks nothing. $1 ids.
SELECT u.id FROM unnest($1::uuid[]) AS u(id)
WHERE EXISTS (SELECT FROM uploads WHERE id = ANY (ARRAY[u.id]) AND object IS NULL)
