-- Keeps how many bytes of an incomplete upload are durable. Locks: the row.
-- $1 id, $2 bytes, $3 size or null to keep it, $4 expiry. Returns a row if the upload was incomplete.
UPDATE uploads SET byte_offset = $2::bigint, size = coalesce($3::bigint, size), expires_at = $4::timestamptz
WHERE id = $1::uuid AND NOT is_complete
RETURNING id
