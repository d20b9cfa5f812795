-- Inserts the jobs of submissions whose idempotency key is new, with the keys, writes their events, and
-- counts them. Fails if sessions have changed since epoch $29, as submit_jobs.sql.
-- Locks: the keys (waits for a transaction that inserts the same one), only then session_epoch, shared (a
-- session change that waits for that lock would otherwise stand between two submissions of one key), the
-- groups of the jobs, the new rows, and this connection's rows of job_counts and job_group_counts. Fails in
-- the same way as submit_jobs.sql because of a group.
-- $1 to $17 as in submit_jobs.sql. One array element for each submission: $19 its number, $20 tenants, $21
-- routes, $22 keys, $23 fingerprints.
-- One array element for each job: $18 its submission, $24 what it waits for,
-- `suspended` or null, $25 the events that its webhook wants or null, $26 its events (EventRecord), $27 its
-- claim queue, $28 its urgency, $30 whether it is to be confirmed before it begins, $31 the path of its
-- scope, $32 is_repeatable, $33 awaits_host.
-- Null if no job has a group or depends on one: $34 to $38 as $30 to $34 of submit_jobs.sql. $39 groups of
-- a tenant at most. A group that is closed is that of the only submission.
-- Returns the numbers of the inserted submissions; the keys of the others exist.
WITH u AS (
    SELECT u.*,
        CASE WHEN u.lease = 1 THEN 'running' WHEN u.waits IS NULL THEN 'queued'
            WHEN u.waits = 'suspended' THEN 'suspended' ELSE 'waiting' END AS state
    FROM unnest(
        $1::uuid[], $2::text[], $3::text[], $4::text[], $5::integer[], $6::real[], $7::timestamptz[],
        $8::timestamptz[], $9::text[], $10::uuid[], $11::jsonb[], $12::text[], $13::bytea[], $14::bytea[],
        $15::text[], $18::integer[], $24::text[], $25::integer[], $26::bytea[],
        $27::bigint[], $28::timestamptz[], $30::boolean[], $31::text[], $32::boolean[],
        $33::boolean[], $38::integer[]
    ) WITH ORDINALITY AS u(
        id, tenant, session, kind, lease, priority, begin_at, expires_at, origin, retry_of, metadata, spec,
        secrets, payload, traceparent, submission, waits, wanted_events, events, queue,
        urgency, asks, scope_path, is_repeatable, awaits_host, job_group, position)
), k AS (
    SELECT * FROM unnest($19::integer[], $20::text[], $21::text[], $22::text[], $23::bytea[])
        AS k(submission, tenant, route, key, fingerprint)
), fresh AS (
    INSERT INTO idempotency_keys (
        tenant, route, key, fingerprint, job_ids, states, next_attempts_at, node, created_at)
    SELECT k.tenant, k.route, k.key, k.fingerprint, j.ids, j.states, j.begins_at, $17::uuid, $16::timestamptz
    FROM k JOIN (
        SELECT submission, array_agg(id ORDER BY position) AS ids,
            array_agg(state ORDER BY position) AS states,
            array_agg(begin_at ORDER BY position) AS begins_at
        FROM u GROUP BY submission
    ) j ON j.submission = k.submission
    ORDER BY k.tenant, k.key
    ON CONFLICT DO NOTHING
    RETURNING tenant, key
), checked AS MATERIALIZED (
    SELECT expect_session_epoch($29::bigint) FROM (SELECT count(*) FROM fresh) AS keys
), accepted AS (
    SELECT k.submission FROM k JOIN fresh f ON f.tenant = k.tenant AND f.key = k.key
), joined AS MATERIALIZED (
    SELECT join_job_groups(
        $34::text[], (
            SELECT array_agg(
                CASE WHEN g.mode & 3 = 1 OR g.mode & 8 <> 0 OR EXISTS (
                    SELECT FROM u WHERE u.job_group = g.number
                        AND u.submission IN (SELECT submission FROM accepted)
                ) THEN g.name END ORDER BY g.number)
            FROM unnest($35::text[], $36::integer[]) WITH ORDINALITY AS g(name, mode, number)),
        $36::integer[], $37::uuid[], $16::timestamptz, $39::bigint) AS ids
    FROM checked
), inserted AS (
    INSERT INTO jobs (
        id, tenant, session, kind, state, waiting_for, attempt, node, started_at, priority, next_attempt_at,
        expires_at, origin, retry_of, metadata, spec, secrets, payload, traceparent, created_at,
        wanted_events, queue, urgency, asks, scope_path, is_repeatable,
        awaits_host, job_group)
    SELECT u.id, u.tenant, u.session, u.kind::job_kind, u.state::job_state,
        CASE WHEN u.state = 'waiting' THEN replace(u.waits, 'confirmation', 'begin_date') END::waiting_for,
        least(u.lease, 1),
        CASE WHEN u.lease > 0 THEN $17::uuid END,
        CASE WHEN u.lease = 1 THEN $16::timestamptz END,
        u.priority, u.begin_at, u.expires_at, u.origin, u.retry_of, u.metadata, u.spec, u.secrets, u.payload,
        u.traceparent, $16::timestamptz, u.wanted_events, u.queue,
        u.urgency, u.asks, u.scope_path, u.is_repeatable, u.awaits_host,
        CASE WHEN u.job_group IS NOT NULL THEN (SELECT ids FROM joined)[u.job_group] END
    FROM u WHERE u.submission IN (SELECT submission FROM accepted)
    RETURNING state, job_group
), told AS (
    INSERT INTO event_inbox (tenant, session, packed)
    SELECT tenant, session, string_agg(events, ''::bytea)
    FROM u WHERE submission IN (SELECT submission FROM accepted) GROUP BY tenant, session
), counted AS (
    INSERT INTO job_counts AS c (shard, waiting, queued, running, suspended)
    SELECT current_setting('ferry.shard'),
        count(*) FILTER (WHERE state = 'waiting'), count(*) FILTER (WHERE state = 'queued'),
        count(*) FILTER (WHERE state = 'running'), count(*) FILTER (WHERE state = 'suspended')
    FROM inserted
    HAVING CASE WHEN $34::text[] IS NULL OR count(*) = 0 THEN true
        ELSE (SELECT cardinality(ids) > 0 FROM joined) AND count_job_groups(
            array_agg(job_group) FILTER (WHERE job_group IS NOT NULL), NULL,
            array_agg(state) FILTER (WHERE job_group IS NOT NULL)) END
    ON CONFLICT (shard) DO UPDATE SET
        waiting = c.waiting + excluded.waiting, queued = c.queued + excluded.queued,
        running = c.running + excluded.running, suspended = c.suspended + excluded.suspended
)
SELECT submission FROM checked, accepted
