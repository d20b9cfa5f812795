-- Returns whether event_inbox has a row up to a position. Locks nothing. $1 position.
SELECT (SELECT true FROM event_inbox WHERE position <= $1::bigint ORDER BY position LIMIT 1) IS TRUE
