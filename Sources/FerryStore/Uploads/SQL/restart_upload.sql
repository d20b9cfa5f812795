-- Begins an incomplete upload of a node again, with the fields of the new request. Locks: the row.
-- $1 id, $2 node, $3 expiry, $4 size or null, $5 file name, $6 media type, $7 metadata, $8 digest of the
-- representation, $9 value of Upload-Concat. Returns columns as in read_upload.sql if it was incomplete.
UPDATE uploads SET expires_at = $3::timestamptz, byte_offset = 0, size = $4::bigint, file_name = $5::text,
    content_type = $6::text, metadata = $7::text, repr_digest = $8::text,
    concatenation = $9::text
WHERE id = $1::uuid AND node = $2::uuid AND NOT is_complete
RETURNING id, created_at, expires_at, node, byte_offset, is_complete, size, tenant, name, file_name,
    content_type, metadata, repr_digest, sha256, concatenation, object
