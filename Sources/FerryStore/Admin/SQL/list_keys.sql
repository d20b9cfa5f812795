-- Reads a page of API keys, including revoked ones, newest first. Locks nothing.
-- $1 upper bound of ids (exclusive), $2 maximum number of keys. Columns as in all_keys.sql.
SELECT id, tenant, role, name, hash, created_at, revoked_at FROM api_keys
WHERE id < $1::uuid ORDER BY id DESC LIMIT $2::integer
