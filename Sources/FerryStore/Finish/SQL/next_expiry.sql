-- Reads the next time at which a job that no node holds must have ended, also one that has just passed. Locks
-- nothing. No row: there is none.
SELECT expires_at FROM jobs
WHERE state IN ('waiting', 'queued', 'suspended') AND node IS NULL
ORDER BY expires_at LIMIT 1
