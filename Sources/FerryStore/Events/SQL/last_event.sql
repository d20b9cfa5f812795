-- Reads the latest row of the log. Locks nothing. No row: the log is empty.
SELECT id FROM events ORDER BY id DESC LIMIT 1
