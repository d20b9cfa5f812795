-- Reads a page of API keys, revoked ones included, newest first. Locks nothing. $1 only ids below this one,
-- $2 how many at most. Columns as in all_keys.sql.
SELECT id, tenant, role, name, hash, created_at, revoked_at FROM api_keys
WHERE id < $1::uuid ORDER BY id DESC LIMIT $2::integer
