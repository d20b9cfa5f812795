-- Keeps an API key. A second one with the same hash changes nothing. Locks: the new row.
-- $1 id, $2 tenant, $3 role, $4 name, $5 SHA-256 of the key, $6 now.
INSERT INTO api_keys (id, tenant, role, name, hash, created_at)
VALUES ($1::uuid, $2::text, $3::text::key_role, $4::text, $5::bytea, $6::timestamptz)
ON CONFLICT (hash) DO NOTHING
