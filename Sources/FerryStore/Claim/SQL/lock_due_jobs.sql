-- Reads waiting jobs that are due, unless a client is to be asked first.
-- Locks: the returned rows; skips rows that another transaction has locked. $1 how many at most.
SELECT id FROM jobs WHERE state = 'waiting' AND next_attempt_at <= now() AND NOT asks
ORDER BY next_attempt_at LIMIT $1::integer
FOR UPDATE SKIP LOCKED
