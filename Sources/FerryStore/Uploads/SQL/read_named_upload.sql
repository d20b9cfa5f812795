-- Reads an upload by its name. Locks nothing. $1 tenant, $2 name. Columns as in read_upload.sql.
SELECT id, created_at, expires_at, node, byte_offset, is_complete, size, tenant, name, file_name,
    content_type, metadata, repr_digest, sha256, concatenation, object
FROM uploads WHERE tenant = $1::text AND name = $2::text
