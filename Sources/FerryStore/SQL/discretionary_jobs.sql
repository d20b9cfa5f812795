-- Reads jobs that may start in a good moment, those that have waited longest first. Locks: rows that nobody
-- else has locked. $1 how many at most, $2 now.
SELECT id, discretionary_bytes FROM jobs
WHERE state = 'waiting' AND waiting_for = 'discretionary' AND discretionary_from <= $2::timestamptz
ORDER BY discretionary_from LIMIT $1::integer
FOR UPDATE SKIP LOCKED
