-- Takes over the generation of the content store after the database was restored: sweeps begin again. Locks:
-- the row. $1 generation of the store. Returns the generation and when the last sweep began; no row if the
-- database has this generation or a higher one.
UPDATE content_store SET generation = $1::bigint WHERE is_only AND generation < $1::bigint
RETURNING generation, swept_at
