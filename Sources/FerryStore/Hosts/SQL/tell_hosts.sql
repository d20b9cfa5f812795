-- Adds events of hosts, which belong to no session, to the inbox. Locks nothing. $1 tenants, $2 one event of
-- each.
INSERT INTO event_inbox (tenant, session, packed)
SELECT tenant, '', packed FROM unnest($1::text[], $2::bytea[]) AS u(tenant, packed)
