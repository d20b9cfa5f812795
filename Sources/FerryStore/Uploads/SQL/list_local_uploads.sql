-- Reads complete uploads on the disk of a node that may be moved to the content store, in order: uploads that
-- are parts of others stay. Locks nothing.
-- $1 node, $2 now, $3 maximum number, $4 lower bound of ids (exclusive). Columns as in read_upload.sql.
SELECT id, created_at, expires_at, node, byte_offset, is_complete, size, tenant, name, file_name,
    content_type, metadata, repr_digest, sha256, concatenation, object
FROM uploads
WHERE node = $1::uuid AND is_complete AND object IS NULL AND id > $4::uuid AND expires_at > $2::timestamptz
    AND concatenation IS DISTINCT FROM 'partial'
ORDER BY node, id LIMIT $3::integer
