-- Writes a setting, new or not. Locks: the row. $1 name, $2 value.
INSERT INTO settings (name, value) VALUES ($1::text, $2::bytea)
ON CONFLICT (name) DO UPDATE SET value = excluded.value
