-- Writes what holds for hosts that this transaction has locked. Locks: nothing new. One array element a host:
-- $1 origins, $2 conditions, $3 when a node has to look at it, or null, $4 why it cannot be reached, or null,
-- $5 bytes per second or null, $6 whether it is probed or its jobs are released.
UPDATE hosts h SET
    condition = u.condition, due_at = u.due_at, unreachable = u.unreachable,
    bytes_per_second_max = u.bytes_per_second_max, is_awaited = u.is_awaited
FROM unnest($1::text[], $2::text[], $3::timestamptz[], $4::text[], $5::bigint[], $6::boolean[])
    AS u(origin, condition, due_at, unreachable, bytes_per_second_max, is_awaited)
WHERE h.origin = ANY (ARRAY[u.origin])
