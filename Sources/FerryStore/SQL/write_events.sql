-- Says what happened, in the transaction of the change. Locks: the new rows. One array element a session: $1
-- tenants, $2 sessions, $3 its events (EventRecord, one after another).
INSERT INTO event_inbox (tenant, session, packed)
SELECT * FROM unnest($1::text[], $2::text[], $3::bytea[])
