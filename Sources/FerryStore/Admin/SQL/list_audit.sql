-- Reads a page of the audit log, newest first. Locks nothing. $1 upper bound of ids (exclusive), $2 maximum
-- number of rows.
SELECT id, requested_at, key, operation, path, request_id, status, body,
    (SELECT k.name FROM api_keys k WHERE k.id = audit.key)
FROM audit WHERE id < $1::uuid ORDER BY id DESC LIMIT $2::integer
