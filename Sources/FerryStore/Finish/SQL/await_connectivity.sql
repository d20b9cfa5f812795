-- Lets jobs wait until their origins can be reached, and writes an event for the first wait. No attempt is
-- used up. A job whose cancellation was requested meanwhile is queued instead; one whose suspension was
-- requested is suspended. A job whose origin is not probed tries again by itself: after 1 s, then after twice
-- as long for each wait before, up to 300 s.
-- Fenced and joined as finish_jobs.sql. Locks: the jobs, then this connection's row of job_counts.
-- One array element for each job: $1 ids, $2 attempts, $3 revisions, $4 the factor of that pause, or null:
-- the job waits until it is released, if a node probes its origin, $5 errors, $6 the attempts that ended, or
-- null, kept as in retry_jobs.sql, $7 whether bytes were left, $8 whether another origin holds the job up:
-- then it tries again after $4 seconds, without an event. Returns the ids of the changed jobs, each with the
-- time of its next attempt, or null.
WITH changed AS (
    UPDATE jobs j SET
        state = CASE WHEN j.cancel_requested THEN 'queued' WHEN j.suspend_requested THEN 'suspended'
            ELSE 'waiting' END::job_state,
        waiting_for = CASE WHEN NOT j.cancel_requested AND NOT j.suspend_requested
            THEN CASE WHEN u.is_held THEN 'retry' ELSE 'connectivity' END END::waiting_for,
        next_attempt_at = CASE WHEN NOT j.cancel_requested AND NOT j.suspend_requested
            THEN coalesce(
                now() + u.factor * make_interval(secs => CASE WHEN u.is_held THEN 1
                    ELSE least(300, 2 ^ least(10, j.connectivity_waits)) END),
                CASE WHEN NOT EXISTS (
                    SELECT FROM hosts h WHERE h.origin = j.origin AND h.is_awaited
                ) THEN now() + interval '1 second' END) END,
        queued_at = now(), suspend_requested = false, has_bytes = j.has_bytes OR u.has_bytes,
        connectivity_waits = j.connectivity_waits
            + CASE WHEN j.cancel_requested OR j.suspend_requested OR u.is_held THEN 0 ELSE 1 END,
        error = u.error, node = NULL, revision = j.revision + 1,
        attempts = CASE WHEN u.ended IS NULL THEN j.attempts
            ELSE (array_append(j.attempts, u.ended))[greatest(1, cardinality(j.attempts) - 47):] END
    FROM unnest(
        $1::uuid[], $2::integer[], $3::integer[], $4::double precision[], $5::text[], $6::bytea[],
        $7::boolean[], $8::boolean[]
    ) AS u(id, attempt, revision, factor, error, ended, has_bytes, is_held)
    WHERE j.id = ANY (ARRAY[u.id]) AND j.attempt = u.attempt
        AND j.state NOT IN ('waiting', 'queued', 'suspended')
    RETURNING j.id, j.state, j.waiting_for, j.attempt, j.revision, j.wanted_events, j.tenant, j.session,
        j.connectivity_waits, j.next_attempt_at
), told AS (
    INSERT INTO event_inbox (tenant, session, packed)
    SELECT tenant, session, string_agg(
        event_pack(3, wanted_events, id, clock_timestamp(), attempt, revision, state, waiting_for, NULL),
        ''::bytea)
    FROM changed WHERE connectivity_waits = 1 AND waiting_for = 'connectivity' GROUP BY tenant, session
), counted AS (
    INSERT INTO job_counts AS c (shard, running, queued, waiting, suspended)
    SELECT current_setting('ferry.shard'), -count(*), count(*) FILTER (WHERE state = 'queued'),
        count(*) FILTER (WHERE state = 'waiting'), count(*) FILTER (WHERE state = 'suspended')
    FROM changed HAVING count(*) > 0
    ON CONFLICT (shard) DO UPDATE SET
        running = c.running + excluded.running, queued = c.queued + excluded.queued,
        waiting = c.waiting + excluded.waiting, suspended = c.suspended + excluded.suspended
)
SELECT id, next_attempt_at FROM changed
