-- Reads a setting. Locks nothing. $1 name. No row: there is none.
SELECT value FROM settings WHERE name = $1::text
