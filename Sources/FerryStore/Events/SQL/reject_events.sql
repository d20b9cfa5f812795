-- Keeps a copy of the first row of the inbox, of which the database has refused what the relay made. Locks:
-- the new row. $1 what the database said, $2 whether its events get their numbers all the same, $3 tenants
-- whose rows are left alone. Returns its tenant and session; no row: there is none.
INSERT INTO rejected_events (position, is_numbered, tenant, session, packed, error)
SELECT position, $2::boolean, tenant, session, packed, $1::text FROM event_inbox
WHERE tenant <> ALL ($3::text[]) ORDER BY position LIMIT 1
RETURNING tenant, session
