-- Reads a page of a tenant's uploads, newest first. Locks nothing. Compared as in list_jobs.sql: of the three
-- branches one is executed.
-- $1 tenant, $2 upper bound of ids (exclusive), $3 maximum number, $4 whether complete or null, $5 name or
-- null, $6 created after or null, $7 created before or null, $8 lower bound of ids (inclusive) or null.
-- Columns as in read_upload.sql.
SELECT id, created_at, expires_at, node, byte_offset, is_complete, size, tenant, name, file_name,
    content_type, metadata, repr_digest, sha256, concatenation, object
FROM (
    (SELECT * FROM uploads
    WHERE $5::text IS NULL AND $4::boolean IS NOT FALSE AND (is_complete = $4::boolean) IS NOT FALSE
        AND tenant = ANY (ARRAY[$1::text]) AND id < $2::uuid
        AND id >= coalesce($8::uuid, '00000000-0000-0000-0000-000000000000')
        AND (created_at > $6::timestamptz) IS NOT FALSE AND (created_at < $7::timestamptz) IS NOT FALSE
    ORDER BY tenant DESC, id DESC LIMIT $3::integer)
    UNION ALL
    (SELECT * FROM uploads
    WHERE $5::text IS NULL AND $4::boolean IS FALSE AND NOT is_complete
        AND tenant = ANY (ARRAY[$1::text]) AND id < $2::uuid
        AND id >= coalesce($8::uuid, '00000000-0000-0000-0000-000000000000')
        AND (created_at > $6::timestamptz) IS NOT FALSE AND (created_at < $7::timestamptz) IS NOT FALSE
    ORDER BY tenant DESC, id DESC LIMIT $3::integer)
    UNION ALL
    (SELECT * FROM uploads
    WHERE tenant = $1::text AND name = $5::text AND id < $2::uuid
        AND (is_complete = $4::boolean) IS NOT FALSE
        AND (created_at > $6::timestamptz) IS NOT FALSE AND (created_at < $7::timestamptz) IS NOT FALSE)
) u
ORDER BY id DESC LIMIT $3::integer
