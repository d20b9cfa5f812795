-- Reads the next deadline of a job that no node holds, also one that has just passed. Locks nothing. No row:
-- there is none.
SELECT deadline_at FROM jobs
WHERE deadline_at IS NOT NULL AND state IN ('waiting', 'queued', 'suspended') AND node IS NULL
ORDER BY deadline_at LIMIT 1
