-- Reads a setting. Locks nothing. $1 name. No row if it is not set.
SELECT value FROM settings WHERE name = $1::text
