-- Reads waiting jobs whose question has expired without an answer.
-- Locks: the returned rows; skips rows that another transaction has locked.
-- $1 maximum number of jobs. Columns 0 to 19 as in claim_jobs.sql; 20 the question.
SELECT j.id, j.tenant, j.state, j.waiting_for, j.revision, j.attempt, j.failed_attempts, j.node, j.created_at,
    j.started_at, j.next_attempt_at, j.expires_at, j.cancel_requested, j.retry_of, j.spec, j.secrets,
    NULL::bytea AS payload, j.error, j.origin, j.traceparent, j.question
FROM jobs j
WHERE j.state = 'waiting' AND j.asks AND j.question IS NOT NULL AND j.next_attempt_at <= now()
ORDER BY j.next_attempt_at LIMIT $1::integer
FOR UPDATE SKIP LOCKED
