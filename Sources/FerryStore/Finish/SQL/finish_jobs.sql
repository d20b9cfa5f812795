-- Moves jobs to their terminal state, and writes their events.
-- Fenced: a row with another attempt or revision has another owner by now and stays as it is. For a leased
-- job the attempt alone decides, because a client may have changed its description or rate meanwhile. Only
-- leased jobs succeed.
-- If the row of a job that has not succeeded notes an upload, the server keeps that: abandoned_uploads gets
-- it. It is due at once, or, if the job has resume data, when that has expired (Limits.resumeDataSeconds).
-- Locks: the jobs, then this connection's rows of job_counts and job_group_counts.
-- One array element for each job: $1 ids, $2 attempts, $3 revisions, $4 terminal states, $5 failed attempts,
-- $6 responses, $7 results, $8 errors (JSON or null), $9 bodies or null, $10 end times, $11 nodes or null,
-- $12 events (EventRecord), $13 the attempt that ended the job (AttemptRecord) or null, $14 resume data or
-- null, $19 when it began, used if the row does not say, or null, $20 bytes that are kept for it without a
-- destination, or null, $21 bytes of bodies that it has received and $22 sent, or null; both null if no job
-- has a group.
-- One array element for each job that asks for an acknowledgement: $15 ids, $16 its rules (JSON), $17 the
-- events that its webhook wants, or null.
-- $18 ids of jobs for which no endpoint may ask for one. Of the other jobs, the oldest endpoint that asks for
-- one and receives the event of the end does; the job keeps its rules.
-- Joined by ANY (ARRAY[…]), which allows an index scan but neither a hash join nor a sort. However wrong the
-- statistics are (a queue that was empty when it was vacuumed), each row is found through the primary key.
-- Returns the ids of the finished jobs, whether other jobs depend on them (those have a row in
-- dependency_outbox, resolve_dependencies.sql), their revisions, when they began, and whether an endpoint
-- asks for an acknowledgement.
WITH u AS (
    SELECT * FROM unnest(
        $1::uuid[], $2::integer[], $3::integer[], $4::text[], $5::integer[], $6::text[], $7::text[],
        $8::text[], $9::bytea[], $10::timestamptz[], $11::uuid[], $12::bytea[], $13::bytea[], $14::text[],
        $19::timestamptz[], $20::bigint[], $21::bigint[], $22::bigint[]
    ) AS u(
        id, attempt, revision, terminal_state, failed_attempts, response, result, error, body, finished_at,
        node, events, last_attempt, resume_data, started_at, stored_bytes,
        received, sent)
), gone AS (
    DELETE FROM jobs j USING u
    WHERE j.id = ANY (ARRAY[u.id]) AND j.attempt = u.attempt
        AND (j.revision = u.revision AND u.terminal_state <> 'succeeded' OR j.node IS NOT NULL)
    RETURNING j.id, j.created_at, coalesce(j.started_at, u.started_at) AS started_at, j.retry_of,
        j.job_group, j.unique_key,
        j.revision, j.attempt, j.spec_revision, j.kind, j.state, j.tenant, j.session, j.origin, j.spec,
        j.metadata, j.secrets, j.payload, j.traceparent, j.attempts, u.node,
        u.terminal_state, u.failed_attempts, u.response, u.result, u.error, u.body, u.finished_at, u.events,
        u.last_attempt, u.resume_data, u.stored_bytes, u.received, u.sent, j.has_dependents, j.wanted_events,
        CASE WHEN j.kind <> 'data' AND u.terminal_state <> 'succeeded' THEN j.next_request END AS upload
), asked AS MATERIALIZED (
    SELECT DISTINCT ON (g.id) g.id, w.id AS endpoint, w.acknowledgement AS rules
    FROM webhooks w CROSS JOIN LATERAL (
        SELECT id, session, metadata, terminal_state FROM gone WHERE tenant = w.tenant OFFSET 0
    ) g
    WHERE w.acknowledgement IS NOT NULL AND w.is_enabled AND w.deleted_at IS NULL
        AND (w.session IS NULL OR w.session = g.session)
        AND (w.events IS NULL OR 'job.' || g.terminal_state = ANY (w.events))
        AND (w.metadata IS NULL OR g.metadata @> w.metadata)
        AND g.id <> ALL ($15::uuid[]) AND g.id <> ALL ($18::uuid[])
        -- Endpoints receive no events of such a session (SessionConfiguration).
        AND NOT EXISTS (
            SELECT FROM session_configurations s
            WHERE s.tenant = w.tenant AND s.name = g.session
                AND NOT s.sends_launch_events)
    ORDER BY g.id, w.id
), kept AS (
    INSERT INTO finished_jobs (
        id, created_at, started_at, finished_at, node, retry_of, job_group, revision, attempt,
        spec_revision, failed_attempts, kind, state, tenant, session, origin, spec, endpoint_acknowledgement,
        metadata, secrets, payload, traceparent, response, result, error, body, attempts, last_attempt,
        resume_data, stored_bytes, unique_key)
    SELECT id, created_at, started_at, finished_at, node, retry_of, job_group, revision + 1, attempt,
        spec_revision, failed_attempts, kind, terminal_state::job_state, tenant, session, origin, spec,
        CASE WHEN (SELECT true FROM asked LIMIT 1) THEN (SELECT a.rules FROM asked a WHERE a.id = g.id) END,
        metadata, secrets, payload, traceparent, response, result, error, body, attempts, last_attempt,
        resume_data, stored_bytes, unique_key
    FROM gone g
), awaiting AS (
    INSERT INTO unacknowledged_jobs (
        job, tenant, session, rules, endpoint, wanted_events, expires_at, next_look_at)
    SELECT g.id, g.tenant, g.session, a.rules::jsonb, a.endpoint,
        CASE WHEN a.endpoint IS NULL THEN a.wanted_events ELSE g.wanted_events END, e.at,
        reminder_at(a.rules::jsonb, 0, g.finished_at, e.at)
    FROM (
        SELECT id, rules, wanted_events, NULL::uuid AS endpoint
        FROM unnest($15::uuid[], $16::text[], $17::integer[]) AS a(id, rules, wanted_events)
        UNION ALL
        SELECT id, rules, NULL, endpoint FROM asked
    ) a
    JOIN gone g ON g.id = a.id
    CROSS JOIN LATERAL (
        SELECT g.finished_at + make_interval(secs => (a.rules::jsonb ->> 'timeout')::double precision) AS at
    ) e
), noticed AS (
    INSERT INTO dependency_outbox (job, state)
    SELECT id, terminal_state::job_state FROM gone WHERE has_dependents
), told AS (
    INSERT INTO event_inbox (tenant, session, job_group, packed)
    SELECT tenant, session, job_group, string_agg(events, ''::bytea)
    FROM gone GROUP BY tenant, session, job_group
), counted AS (
    INSERT INTO job_counts AS c (shard, waiting, queued, running, suspended)
    SELECT current_setting('ferry.shard'),
        -count(*) FILTER (WHERE state = 'waiting'), -count(*) FILTER (WHERE state = 'queued'),
        -count(*) FILTER (WHERE state = 'running'), -count(*) FILTER (WHERE state = 'suspended')
    FROM gone
    HAVING count(*) > 0 AND CASE WHEN count(job_group) = 0 THEN true ELSE count_job_groups(
        array_agg(job_group) FILTER (WHERE job_group IS NOT NULL),
        array_agg(state) FILTER (WHERE job_group IS NOT NULL),
        array_agg(terminal_state::job_state) FILTER (WHERE job_group IS NOT NULL),
        array_agg(received) FILTER (WHERE job_group IS NOT NULL),
        array_agg(sent) FILTER (WHERE job_group IS NOT NULL)) END
        AND CASE WHEN count(upload) = 0 THEN true ELSE abandon_uploads(
            array_agg(ROW(
                id, created_at,
                CASE WHEN resume_data IS NULL THEN now() ELSE now() + interval '1 day' END, NULL, 0, tenant,
                origin, spec, upload, secrets)::abandoned_uploads) FILTER (WHERE upload IS NOT NULL)) END
    ON CONFLICT (shard) DO UPDATE SET
        waiting = c.waiting + excluded.waiting, queued = c.queued + excluded.queued,
        running = c.running + excluded.running, suspended = c.suspended + excluded.suspended
)
SELECT id, has_dependents, revision + 1, started_at,
    EXISTS (SELECT FROM asked LIMIT 1) AND EXISTS (SELECT FROM asked a WHERE a.id = gone.id)
FROM gone
