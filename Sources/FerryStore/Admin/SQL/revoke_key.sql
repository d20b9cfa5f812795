-- Revokes an API key for good. Locks: its row. $1 id. Changes no row if there is no such key, or it was
-- revoked before.
UPDATE api_keys SET revoked_at = now() WHERE id = $1::uuid AND revoked_at IS NULL
