-- Reads an upload. Locks nothing. $1 tenant, $2 id.
SELECT id, created_at, expires_at, node, byte_offset, is_complete, size, tenant, name, file_name,
    content_type, metadata, repr_digest, sha256, concatenation, object
FROM uploads WHERE id = $2::uuid AND (tenant = $1::text) IS TRUE
