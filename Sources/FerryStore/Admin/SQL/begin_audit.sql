-- Records a request of an operator before it is carried out. Locks: the new row.
-- $1 id, $2 now, $3 key or null, $4 operation, $5 path, $6 id of the request.
INSERT INTO audit (id, requested_at, key, operation, path, request_id)
VALUES ($1::uuid, $2::timestamptz, $3::uuid, $4::text, $5::text, $6::text)
