-- Copies the first row of the inbox to rejected_events, since the database refuses what the relay makes of
-- it. Locks: the new row.
-- $1 error message, $2 whether its events get their numbers, $3 tenants whose rows are skipped. Returns
-- tenant and session; no row if the inbox has no other row.
INSERT INTO rejected_events (position, is_numbered, tenant, session, packed, error)
SELECT position, $2::boolean, tenant, session, packed, $1::text FROM event_inbox
WHERE tenant <> ALL ($3::text[]) ORDER BY position LIMIT 1
RETURNING tenant, session
