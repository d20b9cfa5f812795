-- Puts events that this transaction has taken back to their positions in the inbox; the next pass takes them.
-- Locks: the new rows.
-- One array element a row: $1 positions, $2 tenants, $3 sessions, $4 packed events, $5 groups or null.
INSERT INTO event_inbox (position, tenant, session, packed, job_group) OVERRIDING SYSTEM VALUE
SELECT u.position, u.tenant, u.session, u.packed, u.job_group
FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bytea[], $5::uuid[])
    AS u(position, tenant, session, packed, job_group)
