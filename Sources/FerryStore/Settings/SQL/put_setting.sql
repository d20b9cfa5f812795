-- Writes a setting unless it is set, and returns the stored value. Locks: the row. $1 name, $2 value.
WITH fresh AS (
    INSERT INTO settings (name, value) VALUES ($1::text, $2::bytea) ON CONFLICT (name) DO NOTHING
        RETURNING value
)
SELECT value FROM fresh UNION ALL SELECT value FROM settings WHERE name = $1::text LIMIT 1
