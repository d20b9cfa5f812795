-- Changes unfinished jobs: their state, what they wait for, their attempt or their requests. Writes their
-- events and counts them. The only statement that does so, except submission (submit_jobs.sql), claims
-- (claim_jobs.sql) and the end of a job (finish_jobs.sql). What it writes is a row of the transition table
-- (JobTransition in the source).
-- A job that has another attempt, revision or state than is expected stays as it is: it has another owner by
-- now. If its cancellation was requested, it is queued in place of any other state: the node that claims it
-- ends it. If its suspension was requested, it is suspended.
-- Locks: the jobs, then this connection's rows of job_counts and job_group_counts.
-- One array element for each job: $1 ids, $2 attempts or null: any, $3 revisions or null: any, $4 the states
-- that it may have (a job that a node holds counts as running), $5 new states or null: as it is, $6 what they
-- wait for or null, $7 effects (JobEffects), $8 codes of events (EventType) or 0, $9 times of events or null:
-- now, $10 when the wait is due or null, $11 seconds until then, doubled for each earlier wait up to 300, or
-- null, $12 errors or null: as it is, $13 failed attempts or null: as it is, $14 the attempts that ended
-- (AttemptRecord) or null: the latest 49 are kept, and the one that ends the job comes with finish_jobs.sql,
-- $15 whether bytes are left or null: as it is, $16 questions or null, $17 whether a client is asked before
-- the job goes on, or null: as it is if no attempt has begun, $18 the only nodes or null: as it is, $19 claim
-- queues (column `queue`) or null: as it is, $20 earliest starts of discretionary jobs or null: as it is, $21
-- their expected bytes or null, $22 notifications or null, $23 the requests with which the next attempts
-- begin (NextRequest, sealed) or null: as it is.
-- Effects: 1 revises, 4 endsAttempt, 8 losesAttempt, 16 countsWait, 32 keepsDueTime, 64 requestsSuspension,
-- 128 withdrawsSuspension, 256 requestsCancellation, 512 keepsBytes, 8192 recordsBegin.
-- A job that a node holds since its submission is queued and has a node; recordsBegin notes that it begins.
-- A job that waits for a host that no node probes tries again after a second.
-- The row before is read in the snapshot, to count it. The condition on both states holds even if the row has
-- changed since. Joined as finish_jobs.sql.
-- Returns for each changed job: id, claim queue with tenant, session and origin (empty: a wide one), its only
-- node or null, its path (empty: any), urgency, state, due time or null.
WITH changed AS (
    UPDATE jobs j SET
        state = CASE WHEN u.state IS NULL THEN j.state WHEN u.state = 'running' THEN 'running'
            WHEN j.cancel_requested THEN 'queued' WHEN j.suspend_requested THEN 'suspended'
            ELSE u.state::job_state END,
        waiting_for = CASE WHEN u.state IS NULL THEN j.waiting_for
            WHEN NOT j.cancel_requested AND NOT j.suspend_requested THEN u.waits::waiting_for END,
        next_attempt_at = CASE WHEN u.state IS NULL OR u.effects & 32 <> 0 THEN j.next_attempt_at
            WHEN NOT j.cancel_requested AND NOT j.suspend_requested THEN coalesce(
                u.due_at,
                now() + u.pause * make_interval(secs => least(300, 2 ^ least(10, j.connectivity_waits))),
                CASE WHEN u.waits = 'connectivity' AND NOT EXISTS (
                    SELECT FROM hosts h WHERE h.origin = j.origin AND h.is_awaited
                ) THEN now() + interval '1 second' END) END,
        queued_at = CASE WHEN u.state IS NULL OR j.state = 'queued' THEN j.queued_at ELSE now() END,
        question = CASE WHEN u.state IS NULL THEN j.question
            WHEN NOT j.cancel_requested AND NOT j.suspend_requested THEN u.question END,
        asks = CASE WHEN u.state IS NULL THEN j.asks
            ELSE NOT j.cancel_requested AND NOT j.suspend_requested
                AND coalesce(u.asks, j.asks AND j.attempt = 0) END,
        node = CASE WHEN u.effects & 4 = 0 THEN j.node END,
        started_at = CASE WHEN u.effects & 8192 <> 0
            THEN coalesce(j.started_at, greatest(j.created_at, u.event_at)) ELSE j.started_at END,
        attempts = CASE WHEN u.ended IS NULL THEN j.attempts
            ELSE (array_append(j.attempts, u.ended))[greatest(1, cardinality(j.attempts) - 47):] END,
        failed_attempts = coalesce(u.failed_attempts, j.failed_attempts),
        error = coalesce(u.error, j.error),
        was_lost = CASE WHEN u.error IS NULL THEN j.was_lost ELSE u.effects & 8 <> 0 END,
        has_bytes = coalesce(u.has_bytes, j.has_bytes),
        connectivity_waits = j.connectivity_waits + CASE WHEN u.effects & 16 <> 0
            AND NOT j.cancel_requested AND NOT j.suspend_requested THEN 1 ELSE 0 END,
        suspend_requested = CASE WHEN u.effects & 64 <> 0 THEN true
            WHEN u.effects & 4 = 0 AND u.effects & 128 = 0 THEN j.suspend_requested ELSE false END,
        cancel_requested = j.cancel_requested OR u.effects & 256 <> 0,
        keeps_bytes = j.keeps_bytes OR u.effects & 512 <> 0,
        home = coalesce(u.home, j.home), queue = coalesce(u.queue, j.queue),
        discretionary_from = coalesce(u.discretionary_from, j.discretionary_from),
        discretionary_bytes = CASE WHEN u.discretionary_from IS NULL THEN j.discretionary_bytes
            ELSE u.discretionary_bytes END,
        next_request = coalesce(u.next_request, j.next_request),
        revision = j.revision + (u.effects & 1)
    FROM unnest(
        $1::uuid[], $2::integer[], $3::integer[], $4::text[], $5::text[], $6::text[], $7::integer[],
        $8::integer[], $9::timestamptz[], $10::timestamptz[], $11::double precision[], $12::text[],
        $13::integer[], $14::bytea[], $15::boolean[], $16::text[], $17::boolean[], $18::uuid[],
        $19::bigint[], $20::timestamptz[], $21::bigint[], $22::text[], $23::bytea[]
    ) AS u(
        id, attempt, revision, origins, state, waits, effects, event, event_at, due_at, pause, error,
        failed_attempts, ended, has_bytes, question, asks, home, queue, discretionary_from,
        discretionary_bytes, notification, next_request)
    JOIN jobs o ON o.id = ANY (ARRAY[u.id])
    WHERE j.id = ANY (ARRAY[u.id]) AND j.state = o.state AND j.node IS NOT DISTINCT FROM o.node
        AND strpos(u.origins, CASE WHEN j.node IS NOT NULL THEN 'running' ELSE j.state::text END) > 0
        AND (u.attempt IS NULL OR j.attempt = u.attempt)
        AND (u.revision IS NULL OR j.revision = u.revision)
        AND (u.effects & 64 = 0 OR NOT j.cancel_requested) AND (u.effects & 128 = 0 OR j.suspend_requested)
        AND (u.effects & 8192 = 0 OR j.started_at IS NULL)
    RETURNING j.id, j.queue, j.tenant, j.session, j.origin, j.home, j.urgency, j.state, j.next_attempt_at,
        j.waiting_for, j.attempt, j.revision, j.job_group, j.wanted_events, j.connectivity_waits, j.node,
        j.started_at, j.error, j.question,
        CASE WHEN u.event <> 0 AND j.has_bytes THEN kept_attempt(j.attempts) END AS kept,
        o.state AS before, u.state AS meant, u.effects, u.event, u.event_at, u.notification
), told AS (
    INSERT INTO event_inbox (tenant, session, packed)
    SELECT tenant, session, string_agg(
        event_pack(
            event, wanted_events, id, coalesce(event_at, clock_timestamp()), attempt, revision, state,
            waiting_for, event_detail(node, started_at, next_attempt_at, error, question, kept)), ''::bytea)
    FROM changed
    WHERE event <> 0 AND (event = 8 OR state::text = meant)
        AND (effects & 16 = 0 OR connectivity_waits = 1)
    GROUP BY tenant, session
), noticed AS (
    INSERT INTO dependency_outbox (job)
    SELECT id FROM changed WHERE before = 'suspended' AND waiting_for = 'dependency'
), counted AS (
    INSERT INTO job_counts AS c (shard, waiting, queued, running, suspended)
    SELECT current_setting('ferry.shard'),
        count(*) FILTER (WHERE state = 'waiting') - count(*) FILTER (WHERE before = 'waiting'),
        count(*) FILTER (WHERE state = 'queued') - count(*) FILTER (WHERE before = 'queued'),
        count(*) FILTER (WHERE state = 'running') - count(*) FILTER (WHERE before = 'running'),
        count(*) FILTER (WHERE state = 'suspended') - count(*) FILTER (WHERE before = 'suspended')
    FROM changed WHERE state <> before
    HAVING count(*) > 0 AND CASE WHEN count(job_group) = 0 THEN true ELSE count_job_groups(
        array_agg(job_group) FILTER (WHERE job_group IS NOT NULL),
        array_agg(before) FILTER (WHERE job_group IS NOT NULL),
        array_agg(state) FILTER (WHERE job_group IS NOT NULL)) END
    ON CONFLICT (shard) DO UPDATE SET
        waiting = c.waiting + excluded.waiting, queued = c.queued + excluded.queued,
        running = c.running + excluded.running, suspended = c.suspended + excluded.suspended
)
SELECT id, queue, tenant, session, CASE WHEN queue < 0 THEN origin ELSE '' END, home,
    CASE WHEN queue < 0 THEN coalesce((
        SELECT l.path FROM claim_queues l WHERE l.id = ANY (ARRAY[c.queue])), '') ELSE '' END,
    urgency, state::text, next_attempt_at,
    (SELECT pg_notify('ferry', notification) WHERE notification IS NOT NULL)
FROM changed c
