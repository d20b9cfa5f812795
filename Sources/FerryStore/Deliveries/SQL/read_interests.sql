-- Reads the enabled endpoints of tenants with their filters. Locks nothing. $1 tenants.
SELECT id, tenant, url, events, session, metadata FROM webhooks
WHERE tenant = ANY ($1::text[]) AND deleted_at IS NULL AND is_enabled
ORDER BY id
