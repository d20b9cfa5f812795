-- Reads all API keys, revoked ones included, the oldest first. Locks nothing.
SELECT id, tenant, role, name, hash, created_at, revoked_at FROM api_keys ORDER BY id
