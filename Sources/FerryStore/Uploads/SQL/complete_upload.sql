-- Completes an upload. Locks: the row.
-- $1 id, $2 bytes, $3 SHA-256, $4 expiry. Returns columns as in read_upload.sql if it was incomplete.
UPDATE uploads SET byte_offset = $2::bigint, size = $2::bigint, is_complete = true, sha256 = $3::bytea,
    expires_at = $4::timestamptz
WHERE id = $1::uuid AND NOT is_complete
RETURNING id, created_at, expires_at, node, byte_offset, is_complete, size, tenant, name, file_name, content_type,
    metadata, repr_digest, sha256, concatenation
