-- Reads all API keys, including revoked ones. Locks nothing.
SELECT id, tenant, role, name, hash, created_at, revoked_at FROM api_keys
