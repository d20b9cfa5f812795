-- Whether the log has a row, of whomever. Locks nothing. $1 its id.
SELECT EXISTS (SELECT FROM events WHERE id = $1::uuid)
