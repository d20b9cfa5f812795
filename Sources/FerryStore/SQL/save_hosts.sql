-- Writes what holds for hosts that this transaction has locked. Locks: nothing new. One array element a
-- host: $1 origins, $2 conditions, $3 when somebody has to look, or null, $4 connection limits or null, $5
-- until when nothing begins, or null, $6 why nobody is reached, or null, $7 bytes a second or null, $8
-- whether somebody looks for it or lets its jobs go, $9 transfers begun a second or null.
UPDATE hosts h SET
    condition = u.condition, due_at = u.due_at, connection_limit = u.connection_limit,
    blocked_until = u.blocked_until, unreachable = u.unreachable,
    bytes_per_second_max = u.bytes_per_second_max, is_awaited = u.is_awaited,
    request_rate = u.request_rate
FROM unnest(
    $1::text[], $2::text[], $3::timestamptz[], $4::integer[], $5::timestamptz[], $6::text[], $7::bigint[],
    $8::boolean[], $9::double precision[]
) AS u(
    origin, condition, due_at, connection_limit, blocked_until, unreachable, bytes_per_second_max, is_awaited,
    request_rate)
WHERE h.origin = ANY (ARRAY[u.origin])
