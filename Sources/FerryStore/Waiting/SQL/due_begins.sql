-- Reads waiting jobs whose time has come and about which is to be asked before they begin. Locks: those that
-- nobody else has locked. $1 how many at most. Returns ids and specs.
SELECT id, spec FROM jobs
WHERE state = 'waiting' AND asks AND question IS NULL AND next_attempt_at <= now()
ORDER BY next_attempt_at LIMIT $1::integer
FOR UPDATE SKIP LOCKED
