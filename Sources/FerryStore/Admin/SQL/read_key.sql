-- Reads an API key, revoked or not. Locks nothing. $1 id. Columns as in all_keys.sql.
SELECT id, tenant, role, name, hash, created_at, revoked_at FROM api_keys WHERE id = $1::uuid
