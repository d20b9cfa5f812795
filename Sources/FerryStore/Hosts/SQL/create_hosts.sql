-- Creates rows for hosts that have none, unless there are too many rows.
-- Locks: the new rows, in order of their origins.
-- One array element a host: $1 origins, $2 number of rows from which no row is created.
INSERT INTO hosts (origin)
SELECT u.origin FROM unnest($1::text[], $2::bigint[]) AS u(origin, count_max)
WHERE (SELECT count(*) FROM hosts) < u.count_max
ORDER BY u.origin
ON CONFLICT (origin) DO NOTHING
