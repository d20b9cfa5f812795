-- Creates an upload, unless its name is taken or its tenant has too many. Locks: the new row (waits for a
-- transaction that inserts the same name).
-- $1 id, $2 now, $3 expiry, $4 node, $5 size or null, $6 tenant, $7 name or null, $8 file name, $9 media
-- type, $10 metadata, $11 digest of the representation, $12 value of Upload-Concat,
-- $13 uploads of a tenant at most.
-- Returns whether the upload was created, and whether the tenant may have another one.
WITH room AS MATERIALIZED (
    SELECT count(*) < $13::bigint AS is_left FROM (
        SELECT FROM uploads WHERE tenant = $6::text LIMIT $13::bigint) AS u
), made AS (
    INSERT INTO uploads (
        id, created_at, expires_at, node, size, tenant, name, file_name, content_type, metadata, repr_digest,
        concatenation)
    SELECT $1::uuid, $2::timestamptz, $3::timestamptz, $4::uuid, $5::bigint, $6::text, $7::text, $8::text,
        $9::text, $10::text, $11::text, $12::text
    WHERE (SELECT is_left FROM room)
    ON CONFLICT (tenant, name) DO NOTHING
    RETURNING id
)
SELECT EXISTS (SELECT FROM made), (SELECT is_left FROM room)
