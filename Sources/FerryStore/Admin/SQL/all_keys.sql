-- Reads all API keys, revoked ones included. Locks nothing.
SELECT id, tenant, role, name, hash, created_at, revoked_at FROM api_keys
