-- Reads jobs that still wait for a dependency, or are suspended.
-- Locks: these jobs, in the order of their ids.
-- $1 ids. Columns as in claim_jobs.sql.
SELECT j.id, j.tenant, j.state, j.waiting_for, j.revision, j.attempt, j.failed_attempts, j.node, j.created_at,
    j.started_at, j.next_attempt_at, j.expires_at, j.cancel_requested, j.retry_of, j.spec,
    NULL::bytea AS secrets, NULL::bytea AS payload, j.error, j.origin, j.traceparent
FROM jobs j
WHERE j.id = ANY ($1::uuid[]) AND (j.waiting_for = 'dependency' OR j.state = 'suspended')
ORDER BY j.id FOR UPDATE
