-- Puts events back that this transaction has taken, where they were: they come with the next pass. Locks: the
-- new rows. One array element a row: $1 positions, $2 tenants, $3 sessions, $4 events.
INSERT INTO event_inbox (position, tenant, session, packed) OVERRIDING SYSTEM VALUE
SELECT u.position, u.tenant, u.session, u.packed
FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bytea[]) AS u(position, tenant, session, packed)
