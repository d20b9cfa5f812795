-- Completes an upload, and tells the jobs that wait for it. Locks: the row.
-- $1 id, $2 bytes, $3 SHA-256, $4 expiry. Returns columns as in read_upload.sql if it was incomplete; 16
-- whether jobs may wait for it.
WITH done AS (
    UPDATE uploads SET byte_offset = $2::bigint, size = $2::bigint, is_complete = true, sha256 = $3::bytea,
        expires_at = $4::timestamptz
    WHERE id = $1::uuid AND NOT is_complete
    RETURNING id, created_at, expires_at, node, byte_offset, is_complete, size, tenant, name, file_name,
        content_type, metadata, repr_digest, sha256, concatenation, object, is_awaited
), told AS (
    INSERT INTO dependency_outbox (job, state, group_round)
    SELECT id, 'succeeded', -1 FROM done WHERE is_awaited
)
SELECT id, created_at, expires_at, node, byte_offset, is_complete, size, tenant, name, file_name,
    content_type, metadata, repr_digest, sha256, concatenation, object, is_awaited
FROM done
