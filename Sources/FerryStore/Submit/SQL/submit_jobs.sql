-- Inserts jobs without an idempotency key, writes their events, and counts them. Fails, and so undoes the
-- transaction, if sessions have changed since epoch $25 (state FE001); until the commit no session can
-- change.
-- Locks: session_epoch, shared, the groups of the jobs, the new rows, and this connection's rows of
-- job_counts and job_group_counts. Fails in the same way if a group takes no more jobs (FE002), a tenant has
-- too many groups (FE003), a group on which a job depends does not exist (FE004), or jobs could wait for each
-- other (FE005).
-- One array element for each job: $1 ids, $2 tenants, $3 sessions, $4 kinds, $5 its lease (0: none, 1: it
-- begins at once, 2: this node holds it), $6 priorities, $7 begin dates or null, $8 expiries, $9 origins, $10
-- retried jobs or null, $11 metadata or null, $12 specs, $13 sealed secrets or null, $14 payloads or null,
-- $15 traceparents or null, $18 what they wait for, `suspended` or null, $19 the types
-- of events that the jobs' webhooks want (a bit each) or null, $20 claim queues, $21 urgencies, $26 whether
-- they are to be confirmed before they begin, even if they wait for something else first, $27 the paths of
-- their scopes, $28 is_repeatable, $29 awaits_host. $16 now, $17 this node. One array element for each
-- session: $22 tenants, $23 names, $24 its events (EventRecord, one after another).
-- Null if no job has a group or depends on one: $30 tenants, $31 names, $32 modes and $33 new ids of the
-- groups, each once, as in join_job_groups; $34 for each job the number of its group, from 1, or null. $35
-- groups of a tenant at most. $36 for each job its unique key or null; null if no job has one. The same
-- transaction has locked these keys (lock_unique_keys.sql).
WITH checked AS MATERIALIZED (
    SELECT expect_session_epoch($25::bigint)
), joined AS MATERIALIZED (
    SELECT join_job_groups(
        $30::text[], $31::text[], $32::integer[], $33::uuid[], $16::timestamptz, $35::bigint) AS ids
    FROM checked
), told AS (
    INSERT INTO event_inbox (tenant, session, packed)
    SELECT * FROM unnest($22::text[], $23::text[], $24::bytea[])
), inserted AS (
    INSERT INTO jobs (
        id, tenant, session, kind, state, waiting_for, attempt, node, started_at, priority, next_attempt_at,
        expires_at, origin, retry_of, metadata, spec, secrets, payload, traceparent, created_at,
        wanted_events, queue, urgency, asks, scope_path, is_repeatable,
        awaits_host, job_group, unique_key)
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
        u.urgency, u.asks, u.scope_path, u.is_repeatable, u.awaits_host,
        CASE WHEN u.job_group IS NOT NULL THEN (SELECT ids FROM joined)[u.job_group] END,
        CASE WHEN u.unique_key IS NOT NULL THEN unique_key_id(u.tenant, u.unique_key) END
    FROM unnest(
        $1::uuid[], $2::text[], $3::text[], $4::text[], $5::integer[], $6::real[], $7::timestamptz[],
        $8::timestamptz[], $9::text[], $10::uuid[], $11::jsonb[], $12::text[], $13::bytea[], $14::bytea[],
        $15::text[], $18::text[], $19::integer[], $20::bigint[],
        $21::timestamptz[], $26::boolean[], $27::text[], $28::boolean[],
        $29::boolean[], $34::integer[], $36::text[]
    ) AS u(
        id, tenant, session, kind, lease, priority, begin_at, expires_at, origin, retry_of, metadata, spec,
        secrets, payload, traceparent, waits, wanted_events, queue, urgency, asks,
        scope_path, is_repeatable, awaits_host, job_group, unique_key)
    RETURNING state, job_group
)
INSERT INTO job_counts AS c (shard, waiting, queued, running, suspended)
SELECT current_setting('ferry.shard'),
    count(*) FILTER (WHERE state = 'waiting'), count(*) FILTER (WHERE state = 'queued'),
    count(*) FILTER (WHERE state = 'running'), count(*) FILTER (WHERE state = 'suspended')
FROM checked, inserted
HAVING CASE WHEN $30::text[] IS NULL THEN true ELSE (SELECT cardinality(ids) > 0 FROM joined)
    AND count_job_groups(
        array_agg(job_group) FILTER (WHERE job_group IS NOT NULL), NULL,
        array_agg(state) FILTER (WHERE job_group IS NOT NULL)) END
ON CONFLICT (shard) DO UPDATE SET
    waiting = c.waiting + excluded.waiting, queued = c.queued + excluded.queued,
    running = c.running + excluded.running, suspended = c.suspended + excluded.suspended
