-- Revokes an API key for good. Locks: its row. $1 id. No row changes when it is not there or was revoked
-- before.
UPDATE api_keys SET revoked_at = now() WHERE id = $1::uuid AND revoked_at IS NULL
