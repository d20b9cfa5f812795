-- Reads unfinished jobs of sessions that were invalidated with `cancel`, except running jobs whose
-- cancellation was requested already. Locks nothing.
-- $1 maximum number of jobs. Columns 0 to 19 as in claim_jobs.sql.
SELECT j.id, j.tenant, j.state, j.waiting_for, j.revision, j.attempt, j.failed_attempts, j.node, j.created_at,
    j.started_at, j.next_attempt_at, j.expires_at, j.cancel_requested, j.retry_of, j.spec,
    NULL::bytea AS secrets, NULL::bytea AS payload, j.error, j.origin, j.traceparent
FROM session_configurations c
JOIN jobs j ON j.tenant = c.tenant AND j.session = c.name AND j.session <> 'default'
WHERE c.invalidation IS NOT NULL AND c.ended_at IS NULL AND c.invalidation = 'cancel'
    AND NOT (j.node IS NOT NULL AND j.cancel_requested)
LIMIT $1::integer
