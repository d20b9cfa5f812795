-- Reads waiting jobs whose begin date has come and that need a confirmation.
-- Locks: the returned rows; skips rows that another transaction has locked.
-- $1 maximum number of jobs. Returns ids and specs.
SELECT id, spec FROM jobs
WHERE state = 'waiting' AND asks AND question IS NULL AND next_attempt_at <= now()
ORDER BY next_attempt_at LIMIT $1::integer
FOR UPDATE SKIP LOCKED
