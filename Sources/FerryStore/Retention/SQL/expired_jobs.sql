-- Reads jobs that no node runs and whose resource timeout is over. Locks nothing.
-- $1 maximum number of jobs. Columns 0 to 19 as in claim_jobs.sql; 20 whether the job has bytes,
-- 21 the request with which its next attempt begins (NextRequest, sealed) or null.
SELECT j.id, j.tenant, j.state, j.waiting_for, j.revision, j.attempt, j.failed_attempts, j.node, j.created_at,
    j.started_at, j.next_attempt_at, j.expires_at, j.cancel_requested, j.retry_of, j.spec,
    NULL::bytea AS secrets, NULL::bytea AS payload, j.error, j.origin, j.traceparent,
    j.has_bytes, j.next_request
FROM jobs j
WHERE j.expires_at <= now() AND j.state IN ('waiting', 'queued', 'suspended') AND j.node IS NULL
ORDER BY j.expires_at LIMIT $1::integer
