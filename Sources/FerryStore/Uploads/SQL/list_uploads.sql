-- Reads a page of a tenant's uploads, newest first. Locks nothing. Compared as in list_jobs.sql.
-- $1 tenant, $2 upper bound of ids (exclusive), $3 maximum number. Columns as in read_upload.sql.
SELECT id, created_at, expires_at, node, byte_offset, is_complete, size, tenant, name, file_name,
    content_type, metadata, repr_digest, sha256, concatenation
FROM uploads WHERE tenant = ANY (ARRAY[$1::text]) AND id < $2::uuid
ORDER BY tenant DESC, id DESC LIMIT $3::integer
