-- Writes the state of hosts that this transaction has locked. Locks: no further rows.
-- One array element a host: $1 origins, $2 conditions, $3 when a node has to check it or null, $4 why it is
-- unreachable or null, $5 bytes per second or null, $6 whether it is probed or its jobs are being released.
UPDATE hosts h SET
    condition = u.condition, due_at = u.due_at, unreachable = u.unreachable,
    bytes_per_second_max = u.bytes_per_second_max, is_awaited = u.is_awaited
FROM unnest($1::text[], $2::text[], $3::timestamptz[], $4::text[], $5::bigint[], $6::boolean[])
    AS u(origin, condition, due_at, unreachable, bytes_per_second_max, is_awaited)
WHERE h.origin = ANY (ARRAY[u.origin])
