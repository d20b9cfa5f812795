-- Lets jobs wait for their next attempt, and writes the event that this one has failed. A job whose
-- cancellation was requested meanwhile is queued instead: the node that claims it finishes it as cancelled.
-- One whose suspension was requested is suspended.
-- Fenced and joined as finish_jobs.sql. Locks: the jobs, then this connection's row of job_counts.
-- One array element for each job: $1 ids, $2 attempts, $3 revisions, $4 failed attempts, $5 when to try
-- again, $6 errors, $7 the attempts that ended (AttemptRecord) or null: the latest 49 are kept, and the one
-- that ends the job comes with finish_jobs.sql. $8 whether bytes were left, $9 when the attempts ended.
-- Returns the ids of the changed jobs.
WITH changed AS (
    UPDATE jobs j SET
        state = CASE WHEN j.cancel_requested THEN 'queued' WHEN j.suspend_requested THEN 'suspended'
            ELSE 'waiting' END::job_state,
        waiting_for = CASE WHEN NOT j.cancel_requested AND NOT j.suspend_requested
            THEN 'retry' END::waiting_for,
        next_attempt_at = CASE WHEN NOT j.cancel_requested AND NOT j.suspend_requested
            THEN u.next_attempt_at END,
        queued_at = now(), suspend_requested = false, has_bytes = u.has_bytes,
        failed_attempts = u.failed_attempts, error = u.error, node = NULL, revision = j.revision + 1,
        attempts = CASE WHEN u.ended IS NULL THEN j.attempts
            ELSE (array_append(j.attempts, u.ended))[greatest(1, cardinality(j.attempts) - 47):] END
    FROM unnest(
        $1::uuid[], $2::integer[], $3::integer[], $4::integer[], $5::timestamptz[], $6::text[], $7::bytea[],
        $8::boolean[], $9::timestamptz[]
    ) AS u(id, attempt, revision, failed_attempts, next_attempt_at, error, ended, has_bytes, ended_at)
    WHERE j.id = ANY (ARRAY[u.id]) AND j.attempt = u.attempt
        AND j.state NOT IN ('waiting', 'queued', 'suspended')
    RETURNING j.id, j.state, j.waiting_for, j.attempt, j.revision, j.wanted_events, j.tenant, j.session,
        j.error, u.ended_at
), told AS (
    INSERT INTO event_inbox (tenant, session, packed)
    SELECT tenant, session, string_agg(
        event_pack(8, wanted_events, id, ended_at, attempt, revision, state, waiting_for,
            convert_to(error, 'UTF8')), ''::bytea)
    FROM changed GROUP BY tenant, session
), counted AS (
    INSERT INTO job_counts AS c (shard, running, queued, waiting, suspended)
    SELECT current_setting('ferry.shard'), -count(*), count(*) FILTER (WHERE state = 'queued'),
        count(*) FILTER (WHERE state = 'waiting'), count(*) FILTER (WHERE state = 'suspended')
    FROM changed HAVING count(*) > 0
    ON CONFLICT (shard) DO UPDATE SET
        running = c.running + excluded.running, queued = c.queued + excluded.queued,
        waiting = c.waiting + excluded.waiting, suspended = c.suspended + excluded.suspended
)
SELECT id FROM changed
