-- Reads jobs that no node holds and whose deadline has passed. Locks nothing. $1 how many at most. Columns as
-- in expired_jobs.sql.
SELECT j.id, j.tenant, j.state, j.waiting_for, j.revision, j.attempt, j.failed_attempts, j.node, j.created_at,
    j.started_at, j.next_attempt_at, j.expires_at, j.cancel_requested, j.retry_of, j.spec,
    NULL::bytea AS secrets, NULL::bytea AS payload, j.error, j.origin, j.traceparent,
    j.has_bytes
FROM jobs j
WHERE j.deadline_at <= now() AND j.state IN ('waiting', 'queued', 'suspended') AND j.node IS NULL
ORDER BY j.deadline_at LIMIT $1::integer
