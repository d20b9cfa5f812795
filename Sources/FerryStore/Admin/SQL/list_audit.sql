-- Reads a page of what operators have asked for, newest first. Locks nothing. $1 only ids below this one, $2
-- how many at most.
SELECT id, requested_at, key, operation, path, request_id, status, body,
    (SELECT k.name FROM api_keys k WHERE k.id = audit.key)
FROM audit WHERE id < $1::uuid ORDER BY id DESC LIMIT $2::integer
