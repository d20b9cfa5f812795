-- Records the outcome of an operator's request. Locks: the row.
-- $1 id, $2 status of the response, $3 body of a request that was carried out, or null.
UPDATE audit SET status = $2::integer, body = $3::text WHERE id = $1::uuid
