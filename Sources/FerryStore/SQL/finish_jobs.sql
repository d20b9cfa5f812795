-- Moves jobs to their terminal state, and says so. Fenced: a row whose attempt or revision differs has
-- another owner by now and stays as it is. While it runs the attempt alone says whose it is: a client may
-- have changed its description or rate meanwhile. Locks: the jobs, then this connection's row of job_counts.
-- One array element a job: $1 ids, $2 attempts, $3 revisions, $4 terminal states, $5 failed attempts, $6
-- responses, $7 results, $8 errors (JSON or null), $9 bodies or null, $10 times of the end, $11 nodes or
-- null, $12 its events (EventRecord), $13 the attempt that ended it (AttemptRecord), or null, $14 resume data
-- or null. Of those that wait for an acknowledgement alone: $15 ids, $16 what they ask for (JSON), $17 the
-- events that their webhooks want, or null. Joined by ANY (ARRAY[…]), which has an index and neither a hash
-- nor an order: however wrong the statistics are (a queue that was empty when it was vacuumed), the rows are
-- found one by one through the primary key. Returns the ids that were really finished, and whether others
-- depend on them: of those there is news (resolve_dependencies.sql).
WITH u AS (
    SELECT * FROM unnest(
        $1::uuid[], $2::integer[], $3::integer[], $4::text[], $5::integer[], $6::text[], $7::text[],
        $8::text[], $9::bytea[], $10::timestamptz[], $11::uuid[], $12::bytea[], $13::bytea[], $14::text[]
    ) AS u(
        id, attempt, revision, terminal_state, failed_attempts, response, result, error, body, finished_at,
        node, events, last_attempt, resume_data)
), gone AS (
    DELETE FROM jobs j USING u
    WHERE j.id = ANY (ARRAY[u.id]) AND j.attempt = u.attempt
        AND (j.revision = u.revision OR j.state = 'running')
    RETURNING j.id, j.created_at, j.started_at, j.retry_of, j.revision, j.attempt, j.kind, j.state, j.tenant,
        j.session, j.origin, j.spec, j.metadata, j.secrets, j.payload, j.traceparent, j.attempts, u.node,
        u.terminal_state, u.failed_attempts, u.response, u.result, u.error, u.body, u.finished_at, u.events,
        u.last_attempt, u.resume_data, j.has_dependents
), kept AS (
    INSERT INTO finished_jobs (
        id, created_at, started_at, finished_at, node, retry_of, revision, attempt, failed_attempts, kind,
        state, tenant, session, origin, spec, metadata, secrets, payload, traceparent, response, result,
        error, body, attempts, last_attempt, resume_data)
    SELECT id, created_at, started_at, finished_at, node, retry_of, revision + 1, attempt, failed_attempts,
        kind, terminal_state::job_state, tenant, session, origin, spec, metadata, secrets, payload,
        traceparent, response, result, error, body, attempts, last_attempt, resume_data
    FROM gone
), awaiting AS (
    INSERT INTO unacknowledged_jobs (job, tenant, session, rules, wanted_events, expires_at, next_look_at)
    SELECT g.id, g.tenant, g.session, a.rules::jsonb, a.wanted_events, e.at,
        reminder_at(a.rules::jsonb, 0, g.finished_at, e.at)
    FROM unnest($15::uuid[], $16::text[], $17::integer[]) AS a(id, rules, wanted_events)
    JOIN gone g ON g.id = a.id
    CROSS JOIN LATERAL (
        SELECT g.finished_at + make_interval(secs => (a.rules::jsonb ->> 'timeout')::double precision) AS at
    ) e
), noticed AS (
    INSERT INTO dependency_news (job, state)
    SELECT id, terminal_state::job_state FROM gone WHERE has_dependents
), told AS (
    INSERT INTO event_inbox (tenant, session, packed)
    SELECT tenant, session, string_agg(events, ''::bytea) FROM gone GROUP BY tenant, session
), counted AS (
    INSERT INTO job_counts AS c (shard, waiting, queued, running, suspended)
    SELECT current_setting('ferry.shard'),
        -count(*) FILTER (WHERE state = 'waiting'), -count(*) FILTER (WHERE state = 'queued'),
        -count(*) FILTER (WHERE state = 'running'), -count(*) FILTER (WHERE state = 'suspended')
    FROM gone HAVING count(*) > 0
    ON CONFLICT (shard) DO UPDATE SET
        waiting = c.waiting + excluded.waiting, queued = c.queued + excluded.queued,
        running = c.running + excluded.running, suspended = c.suspended + excluded.suspended
)
SELECT id, has_dependents FROM gone
