-- Lets jobs wait until a client has answered a question about them. A job whose cancellation was requested
-- meanwhile is queued instead; one whose suspension was requested is suspended.
-- Fenced and joined as finish_jobs.sql. Locks: the jobs, then this connection's row of job_counts.
-- One array element for each job: $1 ids, $2 attempts, $3 revisions, $4 what they wait for, $5 the questions,
-- $6 when the wait ends, $7 the attempts that ended, kept as in retry_jobs.sql, $8 whether bytes were left.
-- Returns the ids of the changed jobs.
WITH changed AS (
    UPDATE jobs j SET
        state = CASE WHEN j.cancel_requested THEN 'queued' WHEN j.suspend_requested THEN 'suspended'
            ELSE 'waiting' END::job_state,
        waiting_for = CASE WHEN NOT j.cancel_requested AND NOT j.suspend_requested
            THEN u.waits END::waiting_for,
        question = CASE WHEN NOT j.cancel_requested AND NOT j.suspend_requested THEN u.question END,
        next_attempt_at = CASE WHEN NOT j.cancel_requested AND NOT j.suspend_requested THEN u.expires_at END,
        asks = NOT j.cancel_requested AND NOT j.suspend_requested,
        queued_at = now(), suspend_requested = false, has_bytes = u.has_bytes, node = NULL,
        revision = j.revision + 1,
        attempts = CASE WHEN u.ended IS NULL THEN j.attempts
            ELSE (array_append(j.attempts, u.ended))[greatest(1, cardinality(j.attempts) - 47):] END
    FROM unnest(
        $1::uuid[], $2::integer[], $3::integer[], $4::text[], $5::text[], $6::timestamptz[], $7::bytea[],
        $8::boolean[]
    ) AS u(id, attempt, revision, waits, question, expires_at, ended, has_bytes)
    WHERE j.id = ANY (ARRAY[u.id]) AND j.attempt = u.attempt
        AND j.state NOT IN ('waiting', 'queued', 'suspended')
    RETURNING j.*
), told AS (
    INSERT INTO event_inbox (tenant, session, packed)
    SELECT tenant, session, string_agg(
        event_pack(CASE waiting_for WHEN 'challenge' THEN 5 ELSE 6 END, wanted_events, id, now(), attempt,
            revision, state, waiting_for, NULL), ''::bytea)
    FROM changed WHERE state = 'waiting' GROUP BY tenant, session
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
