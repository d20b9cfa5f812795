-- Reads jobs that wait until a host is reachable, highest priority first.
-- Locks: the returned rows; skips rows that another transaction has locked.
-- $1 origin, $2 maximum number of jobs.
SELECT id FROM jobs
WHERE state = 'waiting' AND waiting_for = 'connectivity' AND origin = $1::text
ORDER BY priority DESC, id LIMIT $2::integer
FOR UPDATE SKIP LOCKED
