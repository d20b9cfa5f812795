-- Prepares uploads for the submission of jobs that name them: they stay for an hour at least, and the end of
-- incomplete ones is told. Locks: the rows.
-- $1 tenant, $2 ids, $3 names. Returns id, name, and whether it is complete, of those that the tenant has.
UPDATE uploads SET is_awaited = is_awaited OR NOT is_complete,
    expires_at = greatest(expires_at, now() + interval '1 hour')
WHERE id = ANY (ARRAY(
    SELECT id FROM uploads WHERE id = ANY ($2::uuid[]) AND (tenant = $1::text) IS TRUE
    UNION ALL
    SELECT id FROM uploads WHERE tenant = $1::text AND name = ANY ($3::text[])))
RETURNING id, name, is_complete
