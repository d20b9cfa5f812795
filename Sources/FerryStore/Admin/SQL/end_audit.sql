-- Keeps what became of what an operator has asked for. Locks: the row. $1 id, $2 status of the answer, $3 the
-- body of a request that was carried out, or null.
UPDATE audit SET status = $2::integer, body = $3::text WHERE id = $1::uuid
