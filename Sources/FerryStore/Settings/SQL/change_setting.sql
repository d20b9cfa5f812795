-- Writes a setting if its value is still the one that was read. Locks: the row.
-- $1 name, $2 new value, $3 value that was read, or null if it was not set. Returns the name; no row if the
-- value has changed meanwhile.
INSERT INTO settings AS s (name, value) VALUES ($1::text, $2::bytea)
ON CONFLICT (name) DO UPDATE SET value = excluded.value WHERE s.value = $3::bytea
RETURNING name
