-- Inserts jobs without an idempotency key, writes their events, and counts them. Fails, and so undoes the
-- transaction, if sessions have changed since epoch $25 (state FE001); until the commit no session can
-- change.
-- Locks: session_epoch, shared, the new rows, and this connection's row of job_counts.
-- One array element for each job: $1 ids, $2 tenants, $3 sessions, $4 kinds, $5 its lease (0: none, 1: it
-- begins at once, 2: this node holds it), $6 priorities, $7 begin dates or null, $8 expiries, $9 origins, $10
-- retried jobs or null, $11 metadata or null, $12 specs, $13 sealed secrets or null, $14 payloads or null,
-- $15 traceparents or null, $18 what they wait for, `suspended` or null, $19 the types
-- of events that the jobs' webhooks want (a bit each) or null, $20 claim queues, $21 urgencies, $26 whether
-- they are to be confirmed before they begin, even if they wait for something else first, $27 the paths of
-- their scopes, $28 is_repeatable, $29 awaits_host. $16 now, $17 this node. One array element for each
-- session: $22 tenants, $23 names, $24 its events (EventRecord, one after another).
WITH checked AS MATERIALIZED (
    SELECT expect_session_epoch($25::bigint)
), told AS (
    INSERT INTO event_inbox (tenant, session, packed)
    SELECT * FROM unnest($22::text[], $23::text[], $24::bytea[])
), inserted AS (
    INSERT INTO jobs (
        id, tenant, session, kind, state, waiting_for, attempt, node, started_at, priority, next_attempt_at,
        expires_at, origin, retry_of, metadata, spec, secrets, payload, traceparent, created_at,
        wanted_events, queue, urgency, asks, scope_path, is_repeatable,
        awaits_host)
    SELECT u.id, u.tenant, u.session, u.kind::job_kind,
        CASE WHEN u.lease = 1 THEN 'running' WHEN u.waits IS NULL THEN 'queued'
            WHEN u.waits = 'suspended' THEN 'suspended' ELSE 'waiting' END::job_state,
        CASE WHEN u.lease = 0 AND u.waits <> 'suspended'
            THEN replace(u.waits, 'confirmation', 'begin_date') END::waiting_for,
        least(u.lease, 1),
        CASE WHEN u.lease > 0 THEN $17::uuid END,
        CASE WHEN u.lease = 1 THEN $16::timestamptz END,
        u.priority, u.begin_at, u.expires_at, u.origin, u.retry_of, u.metadata, u.spec, u.secrets, u.payload,
        u.traceparent, $16::timestamptz, u.wanted_events, u.queue,
        u.urgency, u.asks, u.scope_path, u.is_repeatable, u.awaits_host
    FROM unnest(
        $1::uuid[], $2::text[], $3::text[], $4::text[], $5::integer[], $6::real[], $7::timestamptz[],
        $8::timestamptz[], $9::text[], $10::uuid[], $11::jsonb[], $12::text[], $13::bytea[], $14::bytea[],
        $15::text[], $18::text[], $19::integer[], $20::bigint[],
        $21::timestamptz[], $26::boolean[], $27::text[], $28::boolean[],
        $29::boolean[]
    ) AS u(
        id, tenant, session, kind, lease, priority, begin_at, expires_at, origin, retry_of, metadata, spec,
        secrets, payload, traceparent, waits, wanted_events, queue, urgency, asks,
        scope_path, is_repeatable, awaits_host)
    RETURNING state
)
INSERT INTO job_counts AS c (shard, waiting, queued, running, suspended)
SELECT current_setting('ferry.shard'),
    count(*) FILTER (WHERE state = 'waiting'), count(*) FILTER (WHERE state = 'queued'),
    count(*) FILTER (WHERE state = 'running'), count(*) FILTER (WHERE state = 'suspended')
FROM checked, inserted
ON CONFLICT (shard) DO UPDATE SET
    waiting = c.waiting + excluded.waiting, queued = c.queued + excluded.queued,
    running = c.running + excluded.running, suspended = c.suspended + excluded.suspended
