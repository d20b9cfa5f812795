-- Whether an event waits for its number at a place in event_inbox or before it. Locks nothing. $1 the place.
SELECT (SELECT true FROM event_inbox WHERE position <= $1::bigint ORDER BY position LIMIT 1) IS TRUE
