-- Makes rows for hosts that have none, unless there are too many already. Locks: the new rows, in order of
-- their names. $1 origins, $2 how many rows there may be.
INSERT INTO hosts (origin)
SELECT u.origin FROM unnest($1::text[]) AS u(origin)
WHERE (SELECT count(*) FROM hosts) < $2::bigint
ORDER BY u.origin
ON CONFLICT (origin) DO NOTHING
