-- Reads the enabled endpoints of tenants with their filters. Locks nothing. $1 tenants.
SELECT w.id, w.tenant, w.url, w.events, w.session, w.metadata, w.is_of_operator
FROM unnest($1::text[]) AS t(tenant) CROSS JOIN LATERAL (
    SELECT id, tenant, url, events, session, metadata, is_of_operator FROM webhooks
    WHERE tenant = t.tenant AND deleted_at IS NULL AND is_enabled OFFSET 0
) w
ORDER BY w.id
