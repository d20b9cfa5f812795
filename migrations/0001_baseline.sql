-- The schema: jobs, finished jobs, sessions, events, groups, staged uploads, webhooks and deliveries, hosts,
-- schedules, nodes, and keys, settings and audit. Later migrations add to it
-- (docs/decisions/0039-one-baseline.md).
--
-- - No foreign keys between jobs and what belongs to them: rows that belong together are written in one
--   transaction.
-- - Columns of fixed width come first, those that are never null before the others, so that PostgreSQL finds
--   them without reading the texts before them. A null takes no space.
-- - Tables that change with every job are vacuumed early and at full speed. `vacuum_truncate` would take an
--   exclusive lock.
-- - Tables that change with every job have no CHECK constraints: each statement would prepare them. The
--   source writes these rows through its types, and `ferry check --database` verifies them
--   (check_rows.sql).
-- - Some indexes are partial only on paper (`WHERE tenant IS NOT NULL`): a statement that does not name the
--   tenant cannot use them, so that no plan looks a row up by its id through such an index.
-- - "Sealed" is encrypted with the secret key. JSON texts (specs, sessions, responses, questions) have a
--   member `sealed`, a merge patch with their encrypted values.
--
-- The comment of an index names the statements (files below Sources/FerryStore) that need it. Primary keys
-- serve all statements that look a row up.

-- Jobs ------------------------------------------------------------------------------------------------------

CREATE TYPE job_kind AS ENUM ('download', 'upload', 'data');
CREATE TYPE job_state AS ENUM (
    'waiting', 'queued', 'running', 'suspended', 'succeeded', 'failed', 'cancelled');
CREATE TYPE waiting_for AS ENUM (
    'begin_date', 'discretionary', 'connectivity', 'retry', 'dependency', 'challenge', 'confirmation',
    'redirect', 'url_expired');

-- Unfinished jobs. The table stays small and hot.
CREATE TABLE jobs (
    -- UUIDv7: ordered by time.
    id uuid NOT NULL,
    created_at timestamptz NOT NULL,
    -- created_at + timeout_for_resource, or the deadline if that is earlier.
    expires_at timestamptz NOT NULL,
    -- Order in the claim queue, the smallest first: the time at which the job was to begin, less the head
    -- start of its priority. So a job ages without a write.
    urgency timestamptz NOT NULL,
    -- The claim queue (claim_queues.id).
    queue bigint NOT NULL,
    -- Grows with every change of state and of the spec. A change names it to be sure that no other change
    -- came before.
    revision integer NOT NULL DEFAULT 1,
    -- The fencing token: grows with every lease.
    attempt integer NOT NULL DEFAULT 0,
    failed_attempts integer NOT NULL DEFAULT 0,
    -- How often the job has waited for connectivity; only the first time has an event.
    connectivity_waits integer NOT NULL DEFAULT 0,
    priority real NOT NULL,
    kind job_kind NOT NULL,
    state job_state NOT NULL,
    cancel_requested boolean NOT NULL DEFAULT false,
    -- Suspension was requested while a node ran the job.
    suspend_requested boolean NOT NULL DEFAULT false,
    -- The requested cancellation keeps the partial download.
    keeps_bytes boolean NOT NULL DEFAULT false,
    -- The last attempt has left bytes that the next one may continue.
    has_bytes boolean NOT NULL DEFAULT false,
    -- Other jobs depend on the end of this one.
    has_dependents boolean NOT NULL DEFAULT false,
    -- At next_attempt_at a question is due, or its timeout.
    asks boolean NOT NULL DEFAULT false,
    -- The request may be sent twice (JobSpec.isRepeatable in the source).
    is_repeatable boolean NOT NULL DEFAULT false,
    -- The last attempt that may have sent a request that must not be sent twice; null: none.
    sent_attempt integer,
    -- The job waits until its host can be reached (JobSpec.awaitsHost in the source).
    awaits_host boolean NOT NULL DEFAULT false,
    -- The last attempt was lost with its node: what it did is unknown.
    was_lost boolean NOT NULL DEFAULT false,
    waiting_for waiting_for,
    -- When what the job waits for is due.
    next_attempt_at timestamptz,
    started_at timestamptz,
    -- When the job became queued, if not at its creation. Read for the age of the oldest queued job only.
    queued_at timestamptz,
    -- Of a discretionary job: its earliest start, and the bytes that it expects.
    discretionary_from timestamptz,
    discretionary_bytes bigint,
    -- Types of events that the job's own webhook wants, one bit each (EventType.code); null: none.
    wanted_events integer,
    -- The revision since which the job has its spec; null: it was never edited. Earlier specs are in
    -- earlier_specs.
    spec_revision integer,
    -- The node that runs the job.
    node uuid,
    -- The only node that can run the job, because it has the file to be sent; null: any.
    home uuid,
    retry_of uuid,
    -- The job's group (job_groups.id); null: none.
    job_group uuid,
    -- The job's unique key (unique_key_id); null: none.
    unique_key uuid,
    tenant text NOT NULL,
    session text NOT NULL,
    -- scheme://host:port
    origin text NOT NULL,
    -- Path of the request's scope (RequestScope.path in the source).
    scope_path text NOT NULL DEFAULT '',
    -- The accepted fields, a JSON object; text, because it is shown byte for byte.
    spec text NOT NULL,
    -- Of the last attempt that failed, a JSON object.
    error text,
    -- What is asked (JobQuestion in the source), a JSON object.
    question text,
    -- The request with which the next attempt begins (NextRequest in the source), sealed; null: the job's
    -- own.
    next_request bytea,
    traceparent text,
    metadata jsonb,
    -- Sealed.
    secrets bytea,
    -- The bytes of an inline source or body.
    payload bytea,
    -- What the ended attempts did, the oldest first, at most 49, each packed (AttemptRecord in the source).
    -- Only /attempts reads them, so that they are no rows of their own.
    attempts bytea[],
    CONSTRAINT jobs_pkey PRIMARY KEY (id)
) WITH (
    -- Dead index entries at the head of the queue make claims slow: hence the early vacuum.
    fillfactor = 80, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_insert_scale_factor = 0.2, autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0.02, vacuum_truncate = off);

-- The claim reads the most urgent rows of a claim queue without a sort, and finds the next claim queue.
-- Jobs that a node holds since their submission are not among them.
-- Used by claim_jobs, claim_limited_jobs, divert_jobs, lock_unreachable_jobs, scan_claim_queues,
-- restore_claim_queues, read_claim_bounds, grant_connections, read_status.
CREATE INDEX jobs_queued ON jobs (queue, urgency, id) WHERE state = 'queued' AND node IS NULL;
-- Promotion reads due rows, and the time of the next one.
-- Used by lock_due_jobs, next_due.
CREATE INDEX jobs_waiting ON jobs (next_attempt_at) WHERE state = 'waiting';
-- Jobs of a node: at its restart, at its death, and when it looks for requested cancellations.
-- Used by held_jobs, divert_running, lock_jobs_of_node, lock_jobs_of_dead_nodes, remove_node, take_permits,
-- fold_counts, read_host, list_hosts, lock_hosts, count_host_jobs.
CREATE INDEX jobs_leased ON jobs (node) WHERE node IS NOT NULL;
-- Running jobs of an origin and of a claim queue with a limit.
-- Used by read_permits, grant_connections.
CREATE INDEX jobs_permits ON jobs (origin, queue) WHERE state = 'running' AND queue < 0;
-- Whether a narrow claim queue has jobs. The condition says `queue < 0` in words that no other statement
-- uses, so that running jobs are never counted with this index.
-- Used by remove_old_claim_queues.
CREATE INDEX jobs_narrow ON jobs (queue) WHERE (queue < 0) IS TRUE;
-- Lists, newest first. Partial on paper.
-- Used by list_jobs, count_default_jobs, count_tenant_jobs.
CREATE INDEX jobs_tenant ON jobs (tenant, id) WHERE tenant IS NOT NULL;
-- Jobs of a session. The default session is left out: it has most jobs, and no end.
-- Used by list_jobs, count_session_jobs, cancel_sessions, end_sessions.
CREATE INDEX jobs_session ON jobs (tenant, session, id) WHERE session <> 'default';
-- Ends of the time of jobs that no node runs, in order.
-- Used by next_expiry, expired_jobs.
CREATE INDEX jobs_expiry ON jobs (expires_at) WHERE state IN ('waiting', 'queued', 'suspended');
-- Questions that are due.
-- Used by due_begins, due_questions, has_due_questions.
CREATE INDEX jobs_asking ON jobs (next_attempt_at) WHERE state = 'waiting' AND asks;
-- Retries of a job, newest first. Few jobs are retries. The tenant, the same for all retries of a job, is
-- part of the order of list_jobs.
-- Used by list_jobs.
CREATE INDEX jobs_retry ON jobs (retry_of, tenant, id) WHERE retry_of IS NOT NULL;
-- Jobs of a group, newest first. The tenant is part of the order, as in jobs_retry.
-- Used by list_jobs.
CREATE INDEX jobs_group ON jobs (job_group, tenant, id) WHERE job_group IS NOT NULL;
-- The unfinished job with a unique key, of which there is at most one.
-- Used by read_unique_jobs.
CREATE UNIQUE INDEX jobs_unique ON jobs (unique_key) WHERE unique_key IS NOT NULL;
-- Jobs that wait for a host, the first to run first.
-- Used by lock_waiting_jobs, stranded_hosts, lock_hosts.
CREATE INDEX jobs_connectivity ON jobs (origin, priority DESC, id)
    WHERE state = 'waiting' AND waiting_for = 'connectivity';
-- Jobs that wait, or would wait, until their host can be reached. Few jobs do.
-- Used by count_host_jobs.
CREATE INDEX jobs_awaiting ON jobs (origin, tenant) WHERE awaits_host;
-- One look at each session that has discretionary jobs, and its jobs in the order in which they may start.
-- Used by discretionary_jobs.
CREATE INDEX jobs_discretionary_turns ON jobs (tenant, session, discretionary_from, id)
    WHERE state = 'waiting' AND waiting_for = 'discretionary';

-- Returns the value of the columns unique_key: half of a digest, because keys may be long.
CREATE FUNCTION unique_key_id(tenant text, key text) RETURNS uuid LANGUAGE sql STABLE PARALLEL SAFE
RETURN encode(substr(sha256(convert_to(tenant || E'\n' || key, 'UTF8')), 1, 16), 'hex')::uuid;

-- Returns the number of the advisory lock of a unique key. Transactions that insert jobs with unique keys
-- hold it until their commit. At most 1,024 locks, so that a batch does not fill the table of locks: keys
-- with the same lock wait for each other, no more.
CREATE FUNCTION unique_key_lock(tenant text, key text) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN 7378429400506003456 + (hashtextextended(tenant || E'\n' || key, 0) & 1023);

-- Returns the latest attempt (AttemptRecord) that states how many bytes it has left, or null. Such a record
-- begins with 1, and the fifth bit of its third byte is set.
CREATE FUNCTION kept_attempt(attempts bytea[]) RETURNS bytea LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT a FROM unnest($1) WITH ORDINALITY AS u(a, number)
    WHERE CASE WHEN length(a) > 2 THEN get_byte(a, 0) = 1 AND get_byte(a, 2) & 16 <> 0 END
    ORDER BY number DESC LIMIT 1
$$;

-- Claim queues: queued jobs are claimed from them, so that a claim reads the rows that it takes and no
-- others. A wide one (positive number, empty origin) has all jobs of a session that nothing limits. A narrow
-- one (negative number) has the jobs of a session for one origin, once something limits those. Running jobs
-- of a narrow one are counted by an index; those of a wide one are not counted.
CREATE TABLE claim_queues (
    id bigint NOT NULL,
    -- When a node has last learned of it. Narrow ones without jobs are removed some time later.
    used_at timestamptz NOT NULL DEFAULT now(),
    tenant text NOT NULL,
    session text NOT NULL,
    -- scheme://host:port
    origin text NOT NULL DEFAULT '',
    -- Path of a scope that is limited by itself; empty: all other paths.
    path text NOT NULL DEFAULT '',
    -- The only node that can run the jobs (jobs.home), as text, so that other nodes' claims never read them;
    -- empty: any.
    home text NOT NULL DEFAULT '',
    CONSTRAINT claim_queues_pkey PRIMARY KEY (id),
    CONSTRAINT claim_queues_name_is_unique UNIQUE (tenant, session, origin, path, home),
    CONSTRAINT claim_queues_sign_is_width CHECK ((id > 0) = (origin = ''))
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 200,
        autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);
CREATE SEQUENCE claim_queue_ids;
-- Housekeeping removes the oldest narrow ones.
-- Used by lock_old_claim_queues.
CREATE INDEX claim_queues_used ON claim_queues (used_at) WHERE id < 0;

-- Exact counts of unfinished work. Each connection that changes them has a row (a shard) of its own, so that
-- connections never wait for each other. Only the sums have a meaning; a row may be negative.
CREATE TABLE job_counts (
    waiting bigint NOT NULL DEFAULT 0,
    queued bigint NOT NULL DEFAULT 0,
    running bigint NOT NULL DEFAULT 0,
    suspended bigint NOT NULL DEFAULT 0,
    deliveries_pending bigint NOT NULL DEFAULT 0,
    shard text NOT NULL,
    CONSTRAINT job_counts_pkey PRIMARY KEY (shard)
) WITH (fillfactor = 10, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_scale_factor = 0,
        autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);

-- The specs that jobs had before edits and answers, for events of that time. An unedited job has none.
CREATE TABLE earlier_specs (
    job uuid NOT NULL,
    -- When another spec replaced it.
    replaced_at timestamptz NOT NULL DEFAULT now(),
    -- The last revision with this spec.
    last_revision integer NOT NULL,
    -- As in jobs.
    spec text NOT NULL,
    CONSTRAINT earlier_specs_pkey PRIMARY KEY (job, last_revision)
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);
-- Housekeeping removes the oldest.
-- Used by remove_old_events.
CREATE INDEX earlier_specs_replaced ON earlier_specs (replaced_at);

-- Dependencies that have not ended.
CREATE TABLE job_dependencies (
    -- A job, a group (job_groups.id), or an upload (uploads.id).
    dependency uuid NOT NULL,
    dependent uuid NOT NULL,
    -- The round of a group when the dependent was submitted. Null: the dependency is a job; −1: an upload.
    group_round integer,
    CONSTRAINT job_dependencies_pkey PRIMARY KEY (dependency, dependent)
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);
-- Dependencies of a job, in the order in which they are shown.
-- Used by resolve_dependencies, lock_free_dependents, lock_suspended_jobs, read_jobs, list_jobs.
CREATE INDEX job_dependencies_dependent ON job_dependencies (dependent, dependency);

-- Jobs whose dependents are to be looked at: an outbox, written in the transaction that ends a job or submits
-- a dependent one.
CREATE TABLE dependency_outbox (
    position bigint GENERATED ALWAYS AS IDENTITY,
    -- A job, a group (job_groups.id), or an upload (uploads.id).
    job uuid NOT NULL,
    -- The terminal state of a job, or the outcome of a group or upload, that others depend on. Null: the job
    -- itself depends on others.
    state job_state,
    -- The round of a group: jobs that were submitted in a later one wait for that. −1: an upload.
    group_round integer,
    CONSTRAINT dependency_outbox_pkey PRIMARY KEY (position)
) WITH (autovacuum_vacuum_threshold = 200, autovacuum_vacuum_scale_factor = 0,
        autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);

-- Multipart uploads that jobs have left at their stores. No attempt completes them: they are removed there. A
-- row has what the request needs, also after its job is deleted. It is written in the transaction that ends
-- the job (finish_jobs.sql), and deleted when the store has removed the upload, or when another job continues
-- it. A claim moves the time of the next try, so that a node that dies loses none.
CREATE TABLE abandoned_uploads (
    job uuid NOT NULL,
    -- Of the job.
    created_at timestamptz NOT NULL,
    -- The next try. While another job may continue the upload, there is none.
    due_at timestamptz NOT NULL,
    -- A try whose next one would come later is the last one.
    ends_at timestamptz NOT NULL,
    tries integer NOT NULL,
    -- As in jobs.
    tenant text NOT NULL,
    origin text NOT NULL,
    spec text NOT NULL,
    next_request bytea NOT NULL,
    secrets bytea,
    CONSTRAINT abandoned_uploads_pkey PRIMARY KEY (job)
) WITH (autovacuum_vacuum_threshold = 200, autovacuum_vacuum_scale_factor = 0,
        autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);
-- Uploads whose next try is due, in order.
-- Used by claim_abandoned_uploads.
CREATE INDEX abandoned_uploads_due ON abandoned_uploads (due_at);

-- Adds uploads, which are tried for a day, and tells the nodes of those that are due. A function, so that
-- finish_jobs.sql opens the table only for jobs with an upload.
CREATE FUNCTION abandon_uploads(abandoned abandoned_uploads[]) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO abandoned_uploads (
        job, created_at, due_at, ends_at, tries, tenant, origin, spec, next_request, secrets)
    SELECT u.job, u.created_at, u.due_at, u.due_at + interval '1 day', 0, u.tenant, u.origin, u.spec,
        u.next_request, u.secrets
    FROM unnest(abandoned) AS u;
    IF EXISTS (SELECT FROM unnest(abandoned) AS u WHERE u.due_at <= now()) THEN
        PERFORM pg_notify('ferry', 'abandoned_uploads');
    END IF;
    RETURN true;
END $$;

-- Finished jobs ---------------------------------------------------------------------------------------------

-- Finished jobs by time, so that old ones go with their whole table. The time is that of the identifier: its
-- first 48 bits are milliseconds, so that a job's identifier tells its partition. A partition is named by the
-- end of its range, in milliseconds and hexadecimal. Rows change only by an acknowledgement and by a retry.
CREATE TABLE finished_jobs (
    id uuid NOT NULL,
    created_at timestamptz NOT NULL,
    finished_at timestamptz NOT NULL,
    revision integer NOT NULL,
    attempt integer NOT NULL,
    failed_attempts integer NOT NULL,
    kind job_kind NOT NULL,
    state job_state NOT NULL,
    -- As in jobs.
    spec_revision integer,
    started_at timestamptz,
    -- When the result was acknowledged, or no longer waited for. The retention starts at the latest of these
    -- two and finished_at.
    acknowledged_at timestamptz,
    given_up_at timestamptz,
    -- Bytes of the managed file, the kept body, or what another job may continue, of a job without a
    -- destination; null: none.
    stored_bytes bigint,
    node uuid,
    retry_of uuid,
    -- The first job that retries this one, written once (mark_retried.sql); stays when that job is deleted.
    retried_by uuid,
    -- As in jobs. The group may be deleted.
    job_group uuid,
    -- As in jobs.
    unique_key uuid,
    tenant text NOT NULL,
    session text NOT NULL,
    origin text NOT NULL,
    spec text NOT NULL,
    -- JSON objects.
    response text,
    result text,
    error text,
    -- Rules of the acknowledgement that an endpoint has asked for at the end of the job (JSON); null: none.
    endpoint_acknowledgement text,
    -- Sealed; clients get it as it is. While it is young, the files of this job are kept.
    resume_data text,
    traceparent text,
    metadata jsonb,
    -- Sealed; for a later retry, as is payload.
    secrets bytea,
    payload bytea,
    -- Response of a data job, if it is short enough.
    body bytea,
    -- As in jobs; null for a job that needed one attempt.
    attempts bytea[],
    -- The attempt that ended the job; null if none did.
    last_attempt bytea,
    CONSTRAINT finished_jobs_pkey PRIMARY KEY (id)
) PARTITION BY RANGE (id);
-- Lists, newest first. Partial on paper: the two indexes of an empty partition are equally small, and a plan
-- that finds a row by its id through this one reads all of it later.
-- Used by list_jobs, old_default_jobs, sum_stored_bytes.
CREATE INDEX finished_jobs_tenant ON finished_jobs (tenant, id) WHERE tenant IS NOT NULL;
-- Lists of a session, and jobs that a session keeps for a shorter time. As jobs_session.
-- Used by list_jobs, old_session_jobs.
CREATE INDEX finished_jobs_session ON finished_jobs (tenant, session, id) WHERE session <> 'default';
-- Retries of a job, as jobs_retry.
-- Used by list_jobs.
CREATE INDEX finished_jobs_retry ON finished_jobs (retry_of, tenant, id) WHERE retry_of IS NOT NULL;
-- Jobs of a group, as jobs_group.
-- Used by list_jobs.
CREATE INDEX finished_jobs_group ON finished_jobs (job_group, tenant, id) WHERE job_group IS NOT NULL;
-- The last job that succeeded with a unique key.
-- Used by read_unique_jobs.
CREATE INDEX finished_jobs_unique ON finished_jobs (unique_key, finished_at)
    WHERE unique_key IS NOT NULL AND state = 'succeeded';

-- Jobs that end after the partition of their time was dropped.
CREATE TABLE finished_jobs_rest PARTITION OF finished_jobs DEFAULT;

-- Adds the partition that ends at `until`. It is attached, because creating it in place would block all other
-- transactions.
CREATE FUNCTION add_finished_jobs(since uuid, until uuid) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    name text := 'finished_jobs_' || left(replace(until::text, '-', ''), 12);
BEGIN
    PERFORM set_config('lock_timeout', '1s', true);
    EXECUTE format(
        'CREATE TABLE %I (LIKE finished_jobs INCLUDING CONSTRAINTS INCLUDING DEFAULTS)
         WITH (autovacuum_vacuum_insert_scale_factor = 0.1)', name);
    EXECUTE format(
        'ALTER TABLE finished_jobs ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', name, since, until);
END $$;

-- Detaches a partition. The named jobs are moved to finished_jobs_rest, not copied: if a copied job were then
-- deleted, drop_finished_jobs would bring it back.
CREATE FUNCTION detach_finished_jobs(name text, kept uuid[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('lock_timeout', '1s', true);
    EXECUTE format('ALTER TABLE finished_jobs DETACH PARTITION %I', name);
    EXECUTE format(
        'WITH moved AS (DELETE FROM %I WHERE id = ANY ($1) RETURNING *)
         INSERT INTO finished_jobs SELECT * FROM moved', name) USING kept;
END $$;

-- Drops a detached partition, and keeps the jobs that detach_finished_jobs could not name: those that ended
-- since `since`, and those that wait for their acknowledgement. Two statements: with OR, each job would be
-- looked for among all unacknowledged ones, one after another, once these exceed work_mem. The lock comes
-- first, because the work would be in vain while another transaction reads the partition.
CREATE FUNCTION drop_finished_jobs(name text, since timestamptz) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('lock_timeout', '1s', true);
    EXECUTE format('LOCK TABLE %I IN ACCESS EXCLUSIVE MODE', name);
    EXECUTE format(
        'INSERT INTO finished_jobs SELECT * FROM %I WHERE finished_at >= $1 ON CONFLICT DO NOTHING', name)
        USING since;
    EXECUTE format(
        'INSERT INTO finished_jobs SELECT j.* FROM unacknowledged_jobs u JOIN %I j ON j.id = u.job
         ON CONFLICT DO NOTHING', name);
    EXECUTE format(
        'DELETE FROM earlier_specs s WHERE EXISTS (SELECT FROM %I j WHERE j.id = s.job)
            AND NOT EXISTS (SELECT FROM finished_jobs f WHERE f.id = s.job)', name);
    EXECUTE format('DROP TABLE %I', name);
END $$;

-- Returns the jobs of a partition that stay when it is dropped, at most `count_max`: those that ended, were
-- acknowledged or were given up since `since`, and those that wait for their acknowledgement.
CREATE FUNCTION late_finished_jobs(name text, since timestamptz, count_max integer) RETURNS SETOF uuid
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN QUERY EXECUTE format(
        'SELECT id FROM %1$I WHERE finished_at >= $1 OR acknowledged_at >= $1 OR given_up_at >= $1
         UNION SELECT j.id FROM unacknowledged_jobs u JOIN %1$I j ON j.id = u.job LIMIT $2', name)
        USING since, count_max;
END $$;

-- The first partition ends in a day. Each later one begins where the one before ends.
SELECT add_finished_jobs('00000000-0000-0000-0000-000000000000', (
    lpad(to_hex((extract(epoch FROM now()) * 1000)::bigint + 86400000), 12, '0') || repeat('0', 20))::uuid);

-- Finished jobs that are kept until they are acknowledged. Jobs that do not ask for it have no row.
CREATE TABLE unacknowledged_jobs (
    job uuid NOT NULL,
    expires_at timestamptz NOT NULL,
    -- When the next reminder is due, or the job is given up.
    next_look_at timestamptz NOT NULL,
    reminder_count integer NOT NULL DEFAULT 0,
    is_by_webhook boolean NOT NULL GENERATED ALWAYS AS (rules ->> 'by' = 'webhook') STORED,
    -- As in jobs.
    wanted_events integer,
    -- The endpoint that asks for it, and alone can acknowledge it by accepting a delivery. Null: the job or
    -- its session asks.
    endpoint uuid,
    tenant text NOT NULL,
    session text NOT NULL,
    -- What the job asks for (AcknowledgementRules in the source).
    rules jsonb NOT NULL,
    CONSTRAINT unacknowledged_jobs_pkey PRIMARY KEY (job)
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000);
-- Reminders that are due.
-- Used by remind_jobs.
CREATE INDEX unacknowledged_jobs_look ON unacknowledged_jobs (next_look_at);
-- Lists, newest first.
-- Used by list_jobs.
CREATE INDEX unacknowledged_jobs_tenant ON unacknowledged_jobs (tenant, job);
-- Whether a delivery could acknowledge any job at all.
-- Used by record_tries.
CREATE INDEX unacknowledged_jobs_webhook ON unacknowledged_jobs (job) WHERE is_by_webhook;

-- Returns when a job is due again that has got `reminder_count` reminders, the last one at `since`.
CREATE FUNCTION reminder_at(rules jsonb, reminder_count integer, since timestamptz, expires_at timestamptz)
RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN reminder_count >= (rules -> 'reminders' ->> 'max_count')::integer THEN expires_at
        ELSE least(expires_at, since + make_interval(secs => least(
            (rules -> 'reminders' ->> 'max_delay')::double precision,
            (rules -> 'reminders' ->> 'initial_delay')::double precision
                * (rules -> 'reminders' ->> 'multiplier')::double precision ^ reminder_count))) END
$$;

-- Sessions --------------------------------------------------------------------------------------------------

-- Sessions with events. Written with every event, hence apart from the configuration.
CREATE TABLE sessions (
    -- Sequence number of the last event.
    last_sequence bigint NOT NULL,
    -- Jobs that were created and have not ended, by the numbered events.
    unfinished bigint NOT NULL DEFAULT 0,
    -- `unfinished` has become 0, and the event about it is still to be written.
    is_drained boolean NOT NULL DEFAULT false,
    -- The time that the last event shows: no later event shows an earlier one.
    last_at timestamptz,
    tenant text NOT NULL,
    name text NOT NULL,
    CONSTRAINT sessions_pkey PRIMARY KEY (tenant, name)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 200,
        autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);
-- Sessions whose event is still to be written.
-- Used by drained_sessions, has_events.
CREATE INDEX sessions_drained ON sessions (tenant, name) WHERE is_drained;

-- Sessions that were configured or invalidated.
CREATE TABLE session_configurations (
    -- session_epoch.epoch of the last change that concerns the acceptance of jobs.
    epoch bigint NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    -- Grows with every change: the entity tag.
    revision integer NOT NULL,
    -- As in `configuration`: whether endpoints receive events of the session.
    sends_launch_events boolean NOT NULL DEFAULT true,
    invalidated_at timestamptz,
    -- When the last job of an invalidated session ended.
    ended_at timestamptz,
    -- Jobs that begin later use no connection that was made before; null: any.
    flushed_at timestamptz,
    tenant text NOT NULL,
    name text NOT NULL,
    -- A JSON object (SessionConfiguration in the source).
    configuration text NOT NULL,
    -- `finish` or `cancel`: the session takes no more jobs, and what happens to its jobs.
    invalidation text,
    -- Sealed.
    secrets bytea,
    CONSTRAINT session_configurations_pkey PRIMARY KEY (tenant, name),
    CONSTRAINT session_configurations_invalidation CHECK (invalidation IN ('finish', 'cancel')),
    CONSTRAINT session_configurations_end CHECK (
        (invalidation IS NULL) = (invalidated_at IS NULL) AND (ended_at IS NULL OR invalidation IS NOT NULL))
);
-- Changes that a node has not read yet.
-- Used by changed_sessions.
CREATE INDEX session_configurations_epoch ON session_configurations (epoch);
-- Invalidated sessions that have not ended.
-- Used by cancel_sessions, end_sessions.
CREATE INDEX session_configurations_ending ON session_configurations (invalidated_at)
    WHERE invalidation IS NOT NULL AND ended_at IS NULL;

-- Configured sessions that have had cookies. Locked by the transaction that writes cookies of the session, so
-- that versions are committed in their order.
CREATE TABLE cookie_jars (
    -- Grows with each transaction that changes cookies of the session. A node that knows a smaller one reads
    -- what has changed since.
    version bigint NOT NULL,
    -- `version` of the last transaction that removed cookies; 0: none has. A node that knows a smaller one
    -- reads all cookies of the session.
    removal bigint NOT NULL,
    tenant text NOT NULL,
    session text NOT NULL,
    CONSTRAINT cookie_jars_pkey PRIMARY KEY (tenant, session),
    CONSTRAINT cookie_jars_session FOREIGN KEY (tenant, session)
        REFERENCES session_configurations (tenant, name) ON DELETE CASCADE
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 200);

-- Cookies of sessions.
CREATE TABLE cookies (
    -- `cookie_jars.version` of the last change.
    version bigint NOT NULL,
    -- Each node forgets the cookie at this time by itself; null: a session cookie.
    expires_at timestamptz,
    tenant text NOT NULL,
    session text NOT NULL,
    -- SHA-256 of name, domain, host-only flag and path (Cookie.Key in the source).
    key bytea NOT NULL,
    -- Sealed (Cookie in the source).
    cookie bytea NOT NULL,
    CONSTRAINT cookies_pkey PRIMARY KEY (tenant, session, key),
    CONSTRAINT cookies_jar FOREIGN KEY (tenant, session)
        REFERENCES cookie_jars (tenant, session) ON DELETE CASCADE
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 500);

-- Credentials of sessions for their jobs. A change of one raises session_configurations.epoch.
CREATE TABLE session_credentials (
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    -- Grows with every change: the entity tag.
    revision integer NOT NULL,
    -- Whether it is kept for later sessions of the same name. Others end with their session.
    is_permanent boolean NOT NULL,
    tenant text NOT NULL,
    session text NOT NULL,
    name text NOT NULL,
    -- A JSON object without secrets (SessionCredential in the source): protection space, persistence, user.
    credential text NOT NULL,
    -- Sealed.
    secrets bytea NOT NULL,
    CONSTRAINT session_credentials_pkey PRIMARY KEY (tenant, session, name)
);

-- One row. A transaction that inserts jobs compares the epoch (expect_session_epoch) and holds a shared lock
-- of the table until its commit. A transaction that changes a session takes the exclusive lock first
-- (lock_session_epoch). So a job was inserted before the change, or its node has to read the change first.
CREATE TABLE session_epoch (
    epoch bigint NOT NULL,
    -- Epoch of the last removal of a session. A node that knows a smaller epoch reads all sessions again.
    removal bigint NOT NULL,
    is_only boolean NOT NULL DEFAULT true,
    CONSTRAINT session_epoch_pkey PRIMARY KEY (is_only),
    CONSTRAINT session_epoch_is_one_row CHECK (is_only)
);
INSERT INTO session_epoch (epoch, removal) VALUES (0, 0);

-- Raises FE001 if sessions have changed since the epoch `known`. The lock conflicts with lock_session_epoch,
-- but not with readers such as pg_dump. The snapshot of the comparison is taken after the lock, so that it
-- shows the change that the lock waited for.
CREATE FUNCTION expect_session_epoch(known bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    LOCK TABLE session_epoch IN ROW SHARE MODE;
    PERFORM FROM session_epoch WHERE is_only AND epoch = known;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'sessions have changed since epoch %', known USING ERRCODE = 'FE001';
    END IF;
END $$;

-- Waits for transactions that insert jobs; readers continue. Later submissions wait behind it, hence the
-- timeout. A function, because LOCK is refused at the head of a pipeline.
CREATE FUNCTION lock_session_epoch() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('lock_timeout', '3s', true);
    LOCK TABLE session_epoch IN EXCLUSIVE MODE;
END $$;

-- Events ----------------------------------------------------------------------------------------------------

-- Returns one event as EventRecord in the source reads it. `wanted`: wanted_events of the job; `job`: all
-- zero for an event of a session; `state`: the job's state after the event; `detail`: event_detail of a job,
-- bytes of the type, or null.
CREATE FUNCTION event_pack(
    type integer, wanted integer, job uuid, at timestamptz, attempt integer, revision integer,
    state job_state, reason waiting_for, detail bytea
) RETURNS bytea LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT int4send(
        (type << 24)
        | ((coalesce(wanted >> type, 0) & 1) << 16)
        | (CASE WHEN wanted & 12288 <> 0 THEN 131072 ELSE 0 END)
        | (CASE state WHEN 'waiting' THEN 256 WHEN 'queued' THEN 512 WHEN 'running' THEN 768
            WHEN 'suspended' THEN 1024 WHEN 'succeeded' THEN 1280 WHEN 'failed' THEN 1536
            WHEN 'cancelled' THEN 1792 ELSE 0 END)
        | (CASE reason WHEN 'begin_date' THEN 1 WHEN 'discretionary' THEN 2 WHEN 'connectivity' THEN 3
            WHEN 'retry' THEN 4 WHEN 'dependency' THEN 5 WHEN 'challenge' THEN 6
            WHEN 'confirmation' THEN 7 WHEN 'redirect' THEN 8 WHEN 'url_expired' THEN 9 ELSE 0 END))
        || uuid_send(job) || int8send((extract(epoch FROM at) * 1000000)::bigint)
        || int4send(attempt) || int4send(revision)
        || int4send(coalesce(length(detail), 0)) || coalesce(detail, ''::bytea)
$$;

-- Returns what an event keeps of the row of an unfinished job, as EventDetail in the source reads it. `kept`:
-- kept_attempt, if bytes are left. Nulls take no space.
CREATE FUNCTION event_detail(
    node uuid, started_at timestamptz, next_attempt_at timestamptz, error text, question text, kept bytea
) RETURNS bytea LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN node IS NULL THEN '' ELSE '\x01'::bytea || uuid_send(node) END
        || CASE WHEN started_at IS NULL THEN ''
            ELSE '\x02'::bytea || int8send((extract(epoch FROM started_at) * 1000000)::bigint) END
        || CASE WHEN next_attempt_at IS NULL THEN ''
            ELSE '\x03'::bytea || int8send((extract(epoch FROM next_attempt_at) * 1000000)::bigint) END
        || CASE WHEN error IS NULL THEN ''
            ELSE '\x10'::bytea || int4send(octet_length(error)) || convert_to(error, 'UTF8') END
        || CASE WHEN question IS NULL THEN ''
            ELSE '\x11'::bytea || int4send(octet_length(question)) || convert_to(question, 'UTF8') END
        || CASE WHEN kept IS NULL THEN '' ELSE '\x12'::bytea || int4send(length(kept)) || kept END
$$;

-- Events without a sequence number: those of one session that one statement wrote, in the transaction of the
-- change. The relay takes them from here, numbers them, keeps them in `events` and creates the deliveries.
CREATE TABLE event_inbox (
    -- Grows from a change to every change that could see it.
    position bigint GENERATED ALWAYS AS IDENTITY,
    -- The group whose jobs have ended by these events, or that was closed (without events); null: none.
    job_group uuid,
    tenant text NOT NULL,
    -- Empty: no session.
    session text NOT NULL,
    -- One EventRecord after another. Not compressed: they stay for a moment only.
    packed bytea NOT NULL,
    CONSTRAINT event_inbox_pkey PRIMARY KEY (position)
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off,
        toast.autovacuum_vacuum_scale_factor = 0.01, toast.autovacuum_vacuum_threshold = 1000,
        toast.autovacuum_vacuum_cost_delay = 0, toast.vacuum_truncate = off);
ALTER TABLE event_inbox ALTER COLUMN packed SET STORAGE EXTERNAL;

-- Whether events of a group wait for their numbers.
-- Used by finish_job_groups.
CREATE INDEX event_inbox_group ON event_inbox (job_group) WHERE job_group IS NOT NULL;

-- The log: the events of one session that one pass of the relay numbered. Rows never change; they are removed
-- after the retention.
CREATE TABLE events (
    -- Of the first event; each following event has the next one. In the order of numbering, over all
    -- sessions.
    id uuid NOT NULL,
    first_sequence bigint NOT NULL,
    -- When the earliest and the latest event happened; a row spans ten seconds at most.
    first_at timestamptz NOT NULL,
    last_at timestamptz NOT NULL,
    -- Their types, one bit each.
    types integer NOT NULL,
    -- The time that the session's event before the row shows, if it is later than first_at. An event shows
    -- when it happened, or the time of the event before it if that is later.
    not_before timestamptz,
    tenant text NOT NULL,
    session text NOT NULL,
    -- Jobs with an event whose time their own rows do not tell.
    marked uuid[],
    packed bytea NOT NULL,
    CONSTRAINT events_pkey PRIMARY KEY (id)
) WITH (autovacuum_vacuum_insert_scale_factor = 0.1);
-- Lists of a tenant, newest first. Partial on paper.
-- Used by list_events, follow_events.
CREATE INDEX events_tenant ON events (tenant, id) WHERE tenant IS NOT NULL;
-- Lists of a session.
-- Used by list_events, follow_events.
CREATE INDEX events_session ON events (tenant, session, id);
-- Events of a job, by the times in its row.
-- Used by job_events.
CREATE INDEX events_time ON events (tenant, session, last_at);
-- Events of a job, by marks.
-- Used by job_events.
CREATE INDEX events_marked ON events USING gin (marked) WHERE marked IS NOT NULL;

-- Rows of event_inbox that the relay could not process: kept for an operator, as long as events.
CREATE TABLE rejected_events (
    position bigint NOT NULL,
    rejected_at timestamptz NOT NULL DEFAULT now(),
    -- The events are in the log; only their deliveries were not created.
    is_numbered boolean NOT NULL,
    tenant text NOT NULL,
    session text NOT NULL,
    packed bytea NOT NULL,
    -- The error of the database.
    error text NOT NULL,
    CONSTRAINT rejected_events_pkey PRIMARY KEY (position)
);

-- Groups ----------------------------------------------------------------------------------------------------

-- Groups of jobs, each of one tenant.
CREATE TABLE job_groups (
    -- UUIDv7: ordered by time.
    id uuid NOT NULL,
    created_at timestamptz NOT NULL,
    -- 1, and one more with each retry that joined the group after its end.
    round integer NOT NULL DEFAULT 1,
    -- Since then only retries join. Null: the group is open.
    closed_at timestamptz,
    -- When the last job of this round had ended. Null: the group is not finished.
    finished_at timestamptz,
    tenant text NOT NULL,
    name text NOT NULL,
    -- The fields of the client (GroupDraft in the source), a JSON object. Null: its first job has created the
    -- group.
    definition text,
    -- Of the group's own webhook (JobSecrets in the source), sealed.
    secrets bytea,
    CONSTRAINT job_groups_pkey PRIMARY KEY (id),
    CONSTRAINT job_groups_name_is_unique UNIQUE (tenant, name),
    CONSTRAINT job_groups_end CHECK (finished_at IS NULL OR closed_at IS NOT NULL)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 200,
        autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);
-- Lists, newest first. The condition, which holds for each row, keeps the index from other plans.
-- Used by list_job_groups.
CREATE INDEX job_groups_tenant ON job_groups (tenant, id) WHERE round > 0;
-- Housekeeping removes the oldest.
-- Used by remove_old_job_groups.
CREATE INDEX job_groups_finished ON job_groups (finished_at) WHERE finished_at IS NOT NULL;

-- Exact counts of the jobs of groups, as job_counts: a row for each group and shard. Counts of terminal
-- states include jobs that were removed since.
CREATE TABLE job_group_counts (
    job_group uuid NOT NULL,
    waiting bigint NOT NULL DEFAULT 0,
    queued bigint NOT NULL DEFAULT 0,
    running bigint NOT NULL DEFAULT 0,
    suspended bigint NOT NULL DEFAULT 0,
    succeeded bigint NOT NULL DEFAULT 0,
    failed bigint NOT NULL DEFAULT 0,
    cancelled bigint NOT NULL DEFAULT 0,
    -- Failed jobs that were not retried.
    open_failures bigint NOT NULL DEFAULT 0,
    -- Bytes of the files and bodies of succeeded jobs.
    bytes_received bigint NOT NULL DEFAULT 0,
    bytes_sent bigint NOT NULL DEFAULT 0,
    -- Jobs that ended, and their bytes in both directions, in this minute since 1970, and in the one before.
    minute bigint NOT NULL DEFAULT 0,
    minute_jobs bigint NOT NULL DEFAULT 0,
    minute_bytes bigint NOT NULL DEFAULT 0,
    former_jobs bigint NOT NULL DEFAULT 0,
    former_bytes bigint NOT NULL DEFAULT 0,
    shard text NOT NULL,
    CONSTRAINT job_group_counts_pkey PRIMARY KEY (job_group, shard)
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_scale_factor = 0.01,
        autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);

-- Rows that housekeeping adds up.
-- Used by fold_counts.
CREATE INDEX job_group_counts_shard ON job_group_counts (shard) WHERE shard <> 'folded';

-- Groups with their counts. `recent_jobs` and `recent_bytes` are those of the last minute: of the minute
-- before this one, the part that is not over yet counts.
CREATE VIEW counted_job_groups AS
SELECT g.id, g.tenant, g.name, g.definition, g.secrets, g.round, g.created_at, g.closed_at, g.finished_at,
    c.waiting, c.queued, c.running, c.suspended, c.succeeded, c.failed, c.cancelled, c.open_failures,
    c.bytes_received, c.bytes_sent, c.recent_jobs, c.recent_bytes
FROM job_groups g CROSS JOIN (
    SELECT floor(extract(epoch FROM now()) / 60)::bigint AS minute,
        1 - (extract(epoch FROM now()) / 60 - floor(extract(epoch FROM now()) / 60))::double precision AS rest
) t CROSS JOIN LATERAL (
    SELECT coalesce(sum(waiting), 0)::bigint AS waiting, coalesce(sum(queued), 0)::bigint AS queued,
        coalesce(sum(running), 0)::bigint AS running, coalesce(sum(suspended), 0)::bigint AS suspended,
        coalesce(sum(succeeded), 0)::bigint AS succeeded, coalesce(sum(failed), 0)::bigint AS failed,
        coalesce(sum(cancelled), 0)::bigint AS cancelled,
        coalesce(sum(open_failures), 0)::bigint AS open_failures,
        coalesce(sum(bytes_received), 0)::bigint AS bytes_received,
        coalesce(sum(bytes_sent), 0)::bigint AS bytes_sent,
        coalesce(sum(CASE n.minute WHEN t.minute THEN n.minute_jobs + n.former_jobs * t.rest
            WHEN t.minute - 1 THEN n.minute_jobs * t.rest END), 0)::double precision AS recent_jobs,
        coalesce(sum(CASE n.minute WHEN t.minute THEN n.minute_bytes + n.former_bytes * t.rest
            WHEN t.minute - 1 THEN n.minute_bytes * t.rest END), 0)::double precision AS recent_bytes
    FROM job_group_counts n WHERE n.job_group = g.id) c;

-- Adds differences to this connection's rows of job_group_counts. One array element for each job: its group,
-- its state before (null: it is new) and after; of jobs that end, also the bytes that it has received and
-- sent, or null. A function, so that statements that change states open the table only for jobs with a group.
CREATE FUNCTION count_job_groups(
    groups uuid[], before job_state[], after job_state[], received bigint[] DEFAULT NULL,
    sent bigint[] DEFAULT NULL
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    now_minute bigint := floor(extract(epoch FROM clock_timestamp()) / 60);
BEGIN
    INSERT INTO job_group_counts AS c (
        job_group, shard, waiting, queued, running, suspended, succeeded, failed, cancelled, open_failures,
        bytes_received, bytes_sent, minute, minute_jobs, minute_bytes)
    SELECT u.job_group, current_setting('ferry.shard'),
        count(*) FILTER (WHERE u.after = 'waiting') - count(*) FILTER (WHERE u.before = 'waiting'),
        count(*) FILTER (WHERE u.after = 'queued') - count(*) FILTER (WHERE u.before = 'queued'),
        count(*) FILTER (WHERE u.after = 'running') - count(*) FILTER (WHERE u.before = 'running'),
        count(*) FILTER (WHERE u.after = 'suspended') - count(*) FILTER (WHERE u.before = 'suspended'),
        count(*) FILTER (WHERE u.after = 'succeeded'), count(*) FILTER (WHERE u.after = 'failed'),
        count(*) FILTER (WHERE u.after = 'cancelled'), count(*) FILTER (WHERE u.after = 'failed'),
        coalesce(sum(u.received), 0), coalesce(sum(u.sent), 0), now_minute,
        count(*) FILTER (WHERE u.after IN ('succeeded', 'failed', 'cancelled')),
        coalesce(sum(u.received), 0) + coalesce(sum(u.sent), 0)
    FROM unnest(groups, before, after, received, sent) AS u(job_group, before, after, received, sent)
    GROUP BY u.job_group
    ON CONFLICT (job_group, shard) DO UPDATE SET
        waiting = c.waiting + excluded.waiting, queued = c.queued + excluded.queued,
        running = c.running + excluded.running, suspended = c.suspended + excluded.suspended,
        succeeded = c.succeeded + excluded.succeeded, failed = c.failed + excluded.failed,
        cancelled = c.cancelled + excluded.cancelled,
        open_failures = c.open_failures + excluded.open_failures,
        bytes_received = c.bytes_received + excluded.bytes_received,
        bytes_sent = c.bytes_sent + excluded.bytes_sent, minute = excluded.minute,
        minute_jobs =
            excluded.minute_jobs + CASE WHEN c.minute = excluded.minute THEN c.minute_jobs ELSE 0 END,
        minute_bytes =
            excluded.minute_bytes + CASE WHEN c.minute = excluded.minute THEN c.minute_bytes ELSE 0 END,
        former_jobs = CASE c.minute WHEN excluded.minute THEN c.former_jobs
            WHEN excluded.minute - 1 THEN c.minute_jobs ELSE 0 END,
        former_bytes = CASE c.minute WHEN excluded.minute THEN c.former_bytes
            WHEN excluded.minute - 1 THEN c.minute_bytes ELSE 0 END;
    RETURN true;
END $$;

-- Subtracts an open failure in this connection's row of job_group_counts: the job was retried.
CREATE FUNCTION end_open_failure(failed_of uuid) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO job_group_counts AS c (job_group, shard, open_failures)
    VALUES (failed_of, current_setting('ferry.shard'), -1)
    ON CONFLICT (job_group, shard) DO UPDATE SET open_failures = c.open_failures - 1;
    RETURN true;
END $$;

-- The advisory lock of a group's name ("ferryg" and 10 bits of its hash: a transaction has at most 1,024 of
-- them). Transactions that insert jobs of the group hold it shared until their commit; those that close,
-- finish or delete the group hold it alone. Groups with the same lock wait for each other, no more.
CREATE FUNCTION job_group_lock(tenant text, name text) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN 7378429400505057280 + (hashtextextended(tenant || ' ' || name, 0) & 1023);

-- Returns how a finished group ended for the jobs that depend on it.
CREATE FUNCTION job_group_outcome(counted uuid) RETURNS job_state LANGUAGE sql STABLE
RETURN (SELECT CASE WHEN sum(open_failures) > 0 THEN 'failed' WHEN sum(cancelled) > 0 THEN 'cancelled'
        ELSE 'succeeded' END::job_state
    FROM job_group_counts WHERE job_group = counted);

-- Returns whether an unfinished job depends on a group.
CREATE FUNCTION is_awaited(awaited uuid) RETURNS boolean LANGUAGE sql STABLE
RETURN EXISTS (SELECT FROM job_dependencies d WHERE d.dependency = awaited
    AND (SELECT true FROM jobs j WHERE j.id = d.dependent));

-- Locks the groups that new jobs join, creates those that do not exist, and returns their ids in the order
-- of the arrays. Each group occurs once; a null name is left out. `modes`: 0 new jobs, 1 new jobs, and the
-- group is closed, 2 retries, which join a closed group as well and begin the next round of a finished one, 3
-- no jobs; plus 4 if jobs with dependencies join, 8 if jobs depend on the group, 16 if both are so and such a
-- job joins later. Raises FE002 for a closed group, FE003 if the tenant has too many groups, FE004 if a group
-- that no job joins does not exist, FE005 if a job with dependencies joins a group on which a job depends:
-- they could wait for each other. Each statement sees what the lock has waited for.
CREATE FUNCTION join_job_groups(
    tenants text[], names text[], modes integer[], ids uuid[], at timestamptz, count_max bigint
) RETURNS uuid[] LANGUAGE plpgsql AS $$
DECLARE
    g record;
    found_id uuid;
    closed timestamptz;
    way integer;
    counted text;
    room bigint;
    joined uuid[] := array_fill(NULL::uuid, ARRAY[cardinality(names)]);
BEGIN
    FOR g IN
        SELECT * FROM unnest(tenants, names, modes, ids) WITH ORDINALITY
            AS u(tenant, name, mode, id, number)
        WHERE u.name IS NOT NULL
        ORDER BY job_group_lock(u.tenant, u.name), u.mode & 3 = 1 OR u.mode & 4 <> 0 DESC, u.tenant, u.name
    LOOP
        way := g.mode & 3;
        IF way = 1 OR g.mode & 4 <> 0 THEN
            PERFORM pg_advisory_xact_lock(job_group_lock(g.tenant, g.name));
        ELSE
            PERFORM pg_advisory_xact_lock_shared(job_group_lock(g.tenant, g.name));
        END IF;
        SELECT id, closed_at INTO found_id, closed FROM job_groups WHERE tenant = g.tenant AND name = g.name;
        IF NOT FOUND THEN
            IF way = 3 THEN
                RAISE EXCEPTION 'there is no group %', g.name USING ERRCODE = 'FE004';
            END IF;
            -- The group of the retried job was deleted: the retry has none.
            IF way = 2 THEN
                CONTINUE;
            END IF;
            IF g.tenant IS DISTINCT FROM counted THEN
                counted := g.tenant;
                room := count_max - (SELECT count(*) FROM (
                    SELECT FROM job_groups WHERE tenant = g.tenant LIMIT count_max) AS taken);
            END IF;
            IF room <= 0 THEN
                RAISE EXCEPTION 'too many groups' USING ERRCODE = 'FE003';
            END IF;
            room := room - 1;
            INSERT INTO job_groups (id, created_at, tenant, name) VALUES (g.id, at, g.tenant, g.name)
            ON CONFLICT (tenant, name) DO NOTHING;
            SELECT id, closed_at INTO found_id, closed FROM job_groups
            WHERE tenant = g.tenant AND name = g.name;
        END IF;
        IF g.mode & 16 <> 0 OR g.mode & 4 <> 0 AND is_awaited(found_id) THEN
            RAISE EXCEPTION 'jobs depend on the group %', g.name USING ERRCODE = 'FE005';
        END IF;
        IF way = 3 THEN
            CONTINUE;
        ELSIF closed IS NOT NULL AND way <> 2 THEN
            RAISE EXCEPTION 'the group % is closed', g.name USING ERRCODE = 'FE002';
        ELSIF closed IS NOT NULL THEN
            UPDATE job_groups SET finished_at = NULL, round = round + 1
            WHERE id = found_id AND finished_at IS NOT NULL;
        ELSIF way = 1 THEN
            PERFORM close_job_group(found_id, at);
        END IF;
        joined[g.number] := found_id;
    END LOOP;
    RETURN joined;
END $$;

-- Closes an open group. Its lock is held. The row of the inbox makes a pass of the relay look at the group.
CREATE FUNCTION close_job_group(closed uuid, at timestamptz) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    WITH changed AS (
        UPDATE job_groups SET closed_at = greatest(created_at, at) WHERE id = closed AND closed_at IS NULL
        RETURNING tenant, id
    )
    INSERT INTO event_inbox (tenant, session, packed, job_group) SELECT tenant, '', '', id FROM changed;
END $$;

-- Returns whether a group has unfinished jobs.
CREATE FUNCTION has_unfinished_jobs(counted uuid) RETURNS boolean LANGUAGE sql STABLE
RETURN (SELECT coalesce(sum(waiting + queued + running + suspended), 0) <> 0
    FROM job_group_counts WHERE job_group = counted);

-- Finishes the closed groups among these that have no unfinished job and no event in the inbox. Returns them,
-- and whether jobs depend on them: their outcome is then in dependency_outbox. Jobs end
-- before their group is locked, so that most calls lock nothing. The counts are read again after the lock: a
-- retry may have joined meanwhile.
CREATE FUNCTION finish_job_groups(
    groups uuid[], at timestamptz, OUT id uuid, OUT has_dependents boolean
) RETURNS SETOF record LANGUAGE plpgsql AS $$
DECLARE
    g record;
BEGIN
    FOR g IN
        SELECT j.id, job_group_lock(j.tenant, j.name) AS lock FROM job_groups j
        WHERE j.id = ANY (groups) AND j.closed_at IS NOT NULL AND j.finished_at IS NULL
            AND NOT has_unfinished_jobs(j.id)
        ORDER BY lock, j.tenant, j.name
    LOOP
        PERFORM pg_advisory_xact_lock(g.lock);
        UPDATE job_groups j SET finished_at = greatest(j.closed_at, at)
        WHERE j.id = g.id AND j.finished_at IS NULL AND NOT has_unfinished_jobs(j.id)
            AND NOT EXISTS (SELECT FROM event_inbox i WHERE i.job_group = j.id);
        CONTINUE WHEN NOT FOUND;
        INSERT INTO dependency_outbox (job, state, group_round) SELECT j.id, job_group_outcome(j.id), j.round
        FROM job_groups j
        WHERE j.id = g.id AND EXISTS (SELECT FROM job_dependencies d WHERE d.dependency = g.id);
        id := g.id;
        has_dependents := FOUND;
        RETURN NEXT;
    END LOOP;
END $$;

-- Staged uploads --------------------------------------------------------------------------------------------

-- Bytes that clients have sent to Ferry. The file of an upload is on the disk of its node, at a path that the
-- id determines.
CREATE TABLE uploads (
    -- UUIDv7: ordered by time.
    id uuid NOT NULL,
    created_at timestamptz NOT NULL,
    -- When the upload is removed: some time after the last byte, or after the end of the upload.
    expires_at timestamptz NOT NULL,
    -- The node whose disk has the file.
    node uuid NOT NULL,
    -- Bytes of the file that survive the end of the process; the file may be longer.
    byte_offset bigint NOT NULL DEFAULT 0,
    is_complete boolean NOT NULL DEFAULT false,
    -- Jobs may depend on the end of the incomplete upload.
    is_awaited boolean NOT NULL DEFAULT false,
    -- Bytes of the complete upload; null while they are not known.
    size bigint,
    tenant text NOT NULL,
    -- Name that the client has given.
    name text,
    file_name text,
    content_type text,
    -- Fields of the client as they were sent: Upload-Metadata (tus 1.0; empty: none), Repr-Digest (RFC 9530).
    metadata text NOT NULL,
    repr_digest text,
    -- Of a complete upload.
    sha256 bytea,
    -- Upload-Concat (tus 1.0) as it was sent.
    concatenation text,
    -- Key of the object with the bytes of a complete upload; null while they are on the node's disk.
    object text,
    CONSTRAINT uploads_pkey PRIMARY KEY (id),
    CONSTRAINT uploads_name_is_unique UNIQUE (tenant, name),
    CONSTRAINT uploads_complete CHECK (
        is_complete = (sha256 IS NOT NULL) AND (NOT is_complete OR size IS NOT DISTINCT FROM byte_offset))
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 200,
        autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);
-- Lists, newest first. Partial on paper, like jobs_tenant.
-- Used by list_uploads, create_upload, sum_stored_bytes.
CREATE INDEX uploads_tenant ON uploads (tenant, id) WHERE tenant IS NOT NULL;
-- Incomplete uploads, newest first. Partial on paper too.
-- Used by list_uploads.
CREATE INDEX uploads_incomplete ON uploads (tenant, id) WHERE tenant IS NOT NULL AND NOT is_complete;
-- Uploads that have expired.
-- Used by remove_expired_uploads.
CREATE INDEX uploads_expiry ON uploads (expires_at);
-- Complete uploads on the disk of a node, in order.
-- Used by list_local_uploads.
CREATE INDEX uploads_local ON uploads (node, id) WHERE is_complete AND object IS NULL;

-- The jobs that send an upload, written with them. A row stays when its job ends, until its upload is
-- removed.
CREATE TABLE upload_jobs (
    upload uuid NOT NULL,
    job uuid NOT NULL,
    CONSTRAINT upload_jobs_pkey PRIMARY KEY (upload, job)
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);

-- Returns whether an unfinished job needs an upload.
CREATE FUNCTION is_upload_needed(needed uuid) RETURNS boolean LANGUAGE sql STABLE
RETURN EXISTS (SELECT FROM upload_jobs u WHERE u.upload = needed
    AND (SELECT true FROM jobs j WHERE j.id = u.job));

-- Webhooks and deliveries -----------------------------------------------------------------------------------

CREATE TYPE webhook_format AS ENUM ('standard', 'cloudevents');
CREATE TYPE delivery_state AS ENUM ('pending', 'accepted', 'given_up');

-- Endpoints of tenants.
CREATE TABLE webhooks (
    id uuid NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    -- Seconds without an accepted delivery after which a failing endpoint is disabled.
    disable_after double precision NOT NULL,
    revision integer NOT NULL DEFAULT 1,
    format webhook_format NOT NULL,
    is_enabled boolean NOT NULL,
    is_ordered boolean NOT NULL,
    -- Deliveries have the thin payload.
    is_thin boolean NOT NULL DEFAULT false,
    -- An admin key has created it: it can get the events of all hosts.
    is_of_operator boolean NOT NULL DEFAULT false,
    disabled_at timestamptz,
    -- The first failure since the last accepted delivery.
    failing_since timestamptz,
    -- A deleted endpoint is kept until its deliveries are gone.
    deleted_at timestamptz,
    tenant text NOT NULL,
    url text NOT NULL,
    public_key text NOT NULL,
    session text,
    description text,
    disabled_reason text,
    -- The acknowledgement that it asks for, with its own identifier (AcknowledgementRules in the source), as
    -- it becomes part of the jobs' descriptions. Null: none.
    acknowledgement text,
    -- Null: all.
    events text[],
    -- Seconds after the first, second, … try.
    retry_delays double precision[] NOT NULL,
    metadata jsonb,
    -- Header fields of deliveries (WebhookHeaders in the source), a JSON object with sealed values.
    headers text,
    -- TLS settings of the receiver (WebhookTLS in the source), a JSON object with sealed values. Null: the
    -- default.
    tls text,
    -- Sealed.
    keys bytea NOT NULL,
    CONSTRAINT webhooks_pkey PRIMARY KEY (id),
    CONSTRAINT webhooks_disabled_has_reason CHECK (is_enabled = (disabled_reason IS NULL))
) WITH (fillfactor = 70);
-- Lists, newest first, and endpoints that want an event of a tenant.
-- Used by list_webhooks, drain_sessions, has_events.
CREATE INDEX webhooks_tenant ON webhooks (tenant, id) WHERE deleted_at IS NULL;
-- Endpoints that may want the events of all hosts.
-- Used by count_host_jobs.
CREATE INDEX webhooks_of_operators ON webhooks (tenant)
    WHERE is_of_operator AND is_enabled AND deleted_at IS NULL;
-- Endpoints that housekeeping removes.
-- Used by remove_old_deliveries.
CREATE INDEX webhooks_deleted ON webhooks (deleted_at) WHERE deleted_at IS NOT NULL;
-- Whether the end of a job asks for an acknowledgement.
-- Used by finish_jobs.
CREATE INDEX webhooks_asking ON webhooks (tenant, id)
    WHERE acknowledgement IS NOT NULL AND is_enabled AND deleted_at IS NULL;

-- Webhooks of jobs that want the events of their session: each URL once.
CREATE TABLE session_receivers (
    -- The latest job that named it.
    job uuid NOT NULL,
    changed_at timestamptz NOT NULL,
    -- Types of events, one bit each.
    wanted integer NOT NULL,
    tenant text NOT NULL,
    session text NOT NULL,
    url text NOT NULL,
    -- Of the job, which may be gone when the event is sent; its secret signs. Sealed.
    traceparent text,
    secrets bytea,
    CONSTRAINT session_receivers_pkey PRIMARY KEY (tenant, session, url)
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 200,
        autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);
-- Receivers that may be removed.
-- Used by remove_old_events.
CREATE INDEX session_receivers_changed ON session_receivers (changed_at);

-- Events on their way to receivers.
CREATE TABLE deliveries (
    -- UUIDv7: ordered by time.
    id uuid NOT NULL,
    event uuid NOT NULL,
    -- The receiver queue: deliveries to one receiver, so that a sender skips a dead receiver without reading
    -- its deliveries. A ping has a queue of its own: it waits for nothing.
    receiver uuid NOT NULL GENERATED ALWAYS AS (
        CASE WHEN type = 'webhook.ping' THEN id
        ELSE coalesce(endpoint, md5(tenant || ' ' || substring(url from '^[^/]*//[^/?#]*'))::uuid)
        END) STORED,
    sequence bigint NOT NULL,
    -- In the order of the commits that created them, within a session.
    position bigint GENERATED BY DEFAULT AS IDENTITY,
    occurred_at timestamptz NOT NULL,
    -- During a try, the end of the sender's lease.
    next_try_at timestamptz NOT NULL,
    tries integer NOT NULL DEFAULT 0,
    -- Tries without a known result: they do not count in the schedule.
    lost_tries integer NOT NULL DEFAULT 0,
    -- A job's own webhook gets the thin payload; an endpoint has its own setting.
    is_thin boolean NOT NULL DEFAULT false,
    state delivery_state NOT NULL DEFAULT 'pending',
    -- Null: an event of a session.
    job uuid,
    -- Null: a job's own webhook.
    endpoint uuid,
    -- The node whose sender makes a try, until its result is recorded.
    node uuid,
    type text NOT NULL,
    tenant text NOT NULL,
    session text NOT NULL,
    url text NOT NULL,
    -- The job as it was when the event happened, a JSON object.
    job_json text NOT NULL,
    traceparent text,
    -- The job's, sealed; with the signing secret, the header fields and the TLS settings of its webhook if it
    -- has some.
    secrets bytea,
    CONSTRAINT deliveries_pkey PRIMARY KEY (id)
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);
-- Senders step from receiver queue to receiver queue, and read the due deliveries of each.
-- Used by claim_deliveries, read_receiver_queues, take_back_deliveries.
CREATE INDEX deliveries_receiver ON deliveries (receiver, next_try_at) WHERE state = 'pending';
-- The first delivery of a receiver queue that keeps the order.
-- Used by claim_deliveries, read_receiver_queues.
CREATE INDEX deliveries_order ON deliveries (receiver, position)
    WHERE state = 'pending' AND endpoint IS NOT NULL;
-- The oldest event that no receiver has accepted.
-- Used by read_status.
CREATE INDEX deliveries_pending ON deliveries (id) WHERE state = 'pending';
-- Deliveries of a job, newest first.
-- Used by list_deliveries, delete_job, remove_jobs, remind_jobs.
CREATE INDEX deliveries_list ON deliveries (job, id);
-- Deliveries of an endpoint, newest first.
-- Used by list_deliveries, replay_deliveries, remove_old_deliveries.
CREATE INDEX deliveries_endpoint ON deliveries (endpoint, id) WHERE endpoint IS NOT NULL;
-- Whether deliveries of a session to its jobs' own webhooks, or to an endpoint, are pending.
-- Used by drain_sessions.
CREATE INDEX deliveries_session ON deliveries (tenant, session, endpoint) WHERE state = 'pending';

CREATE TABLE delivery_tries (
    delivery uuid NOT NULL,
    started_at timestamptz NOT NULL,
    -- Seconds.
    duration double precision NOT NULL,
    number integer NOT NULL,
    status integer,
    error text,
    -- The start of the receiver's response.
    answer text NOT NULL,
    CONSTRAINT delivery_tries_pkey PRIMARY KEY (delivery, number)
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);

-- Hosts -----------------------------------------------------------------------------------------------------

-- Origins that fail or have rules of their own. An origin without a row is free.
CREATE TABLE hosts (
    -- Jobs wait until the origin can be reached, and a node probes it or releases them.
    is_awaited boolean NOT NULL DEFAULT false,
    -- When a node has to look at it; null: when something happens.
    due_at timestamptz,
    -- Of all nodes together.
    bytes_per_second_max bigint,
    -- scheme://host:port
    origin text NOT NULL,
    -- HostCondition in the source, a JSON object.
    condition text NOT NULL DEFAULT '{}',
    -- Code of the error for which no node reaches it; null: not known to be unreachable.
    unreachable text,
    CONSTRAINT hosts_pkey PRIMARY KEY (origin)
) WITH (fillfactor = 70, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_cost_delay = 0,
        vacuum_truncate = off);
-- Hosts that a node has to look at.
-- Used by lock_hosts.
CREATE INDEX hosts_due ON hosts (due_at) WHERE due_at IS NOT NULL;

-- Limits of scopes: of all requests to an origin, of those of a tenant, or of a tenant's below one first path
-- segment. A row exists while the scope is limited. Running requests are counted in `jobs` and `connections`,
-- so that a crash cannot leave a wrong number.
CREATE TABLE host_limits (
    -- Tokens of the rate that were left when a request began last, and when that was.
    request_credit double precision NOT NULL DEFAULT 1,
    request_credit_at timestamptz NOT NULL DEFAULT now(),
    -- No request begins before; null: no hold.
    blocked_until timestamptz,
    -- Requests begun per second, all nodes together; null: no limit.
    request_rate double precision,
    -- Requests at once, all nodes together; null: no limit.
    connection_limit integer,
    -- scheme://host:port
    origin text NOT NULL,
    -- Empty: every tenant.
    tenant text NOT NULL DEFAULT '',
    -- First path segment and hash of the credentials (RequestScope.path in the source). Empty: every path.
    path text NOT NULL DEFAULT '',
    CONSTRAINT host_limits_pkey PRIMARY KEY (origin, tenant, path),
    CONSTRAINT host_limits_host FOREIGN KEY (origin) REFERENCES hosts ON DELETE CASCADE
) WITH (fillfactor = 70, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_cost_delay = 0,
        vacuum_truncate = off);

-- The latest decisions about each host, at most 50.
CREATE TABLE host_decisions (
    number bigint GENERATED ALWAYS AS IDENTITY,
    origin text NOT NULL,
    -- HostDecision in the source, a JSON object.
    decision text NOT NULL,
    CONSTRAINT host_decisions_pkey PRIMARY KEY (origin, number)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200,
        autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);

-- Throughput of transfers with an origin, for jobs that must start in time.
CREATE TABLE host_throughputs (
    bytes_per_second double precision NOT NULL,
    measured_at timestamptz NOT NULL,
    -- scheme://host:port
    origin text NOT NULL,
    CONSTRAINT host_throughputs_pkey PRIMARY KEY (origin)
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 200,
        autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);
-- The latest throughputs, and the oldest, which are removed.
-- Used by read_throughputs, remove_old_throughputs.
CREATE INDEX host_throughputs_measured ON host_throughputs (measured_at);

-- Connections of running attempts beyond the one to their own origin with which they were leased: of parts,
-- mirrors and redirects, if their origin has a limit. A limit counts them and the running rows of `jobs`.
CREATE TABLE connections (
    job uuid NOT NULL,
    attempt integer NOT NULL,
    count integer NOT NULL,
    -- scheme://host:port
    origin text NOT NULL,
    -- Path of the scope of their requests.
    path text NOT NULL DEFAULT '',
    tenant text NOT NULL,
    session text NOT NULL,
    CONSTRAINT connections_pkey PRIMARY KEY (origin, path, job, attempt)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 200,
        autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);

-- Connections of attempts that still run: those of an ended attempt do not count, whatever happened to its
-- node.
CREATE VIEW open_connections AS
SELECT c.origin, c.path, c.job, c.attempt, c.tenant, c.session, c.count FROM connections c
WHERE (
    SELECT j.node IS NOT NULL AND j.attempt = c.attempt FROM jobs j WHERE j.id = ANY (ARRAY[c.job]));

-- Returns the largest number of tokens: those of a fiftieth of a second, at least 1.5, so that a late node
-- loses none (also HostLimit in the source). Null: no rate.
CREATE FUNCTION request_burst(rate double precision) RETURNS double precision
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN rate IS NOT NULL THEN greatest(1.5, rate / 50) END;

-- Returns the tokens of now. Null: no rate.
CREATE FUNCTION request_credit(rate double precision, credit double precision, since timestamptz)
RETURNS double precision
LANGUAGE sql STABLE PARALLEL SAFE
RETURN CASE WHEN rate IS NOT NULL THEN least(
    request_burst(rate),
    credit + rate * greatest(0, extract(epoch FROM now() - since)::double precision)) END;

-- What the limits of the scopes leave to each narrow claim queue. For one without a path these are the limits
-- of the tenant and the origin; its jobs of paths that are limited by themselves are skipped. Connections of
-- the session count in all claim queues of session and origin together.
CREATE VIEW narrow_claim_queues AS
SELECT l.id AS queue, l.tenant, l.session, l.origin, l.path, l.home,
    (SELECT count(*) FROM jobs r
        WHERE r.state = 'running' AND r.queue < 0 AND r.origin = l.origin AND r.queue = ANY (ARRAY(
            SELECT s.id FROM claim_queues s
            WHERE s.tenant = l.tenant AND s.session = l.session AND s.origin = l.origin)))
        + (SELECT coalesce(sum(o.count), 0) FROM open_connections o
            WHERE o.origin = l.origin AND o.tenant = l.tenant AND o.session = l.session) AS session_count,
    h.room, h.blocked_until, h.request_credit
FROM claim_queues l CROSS JOIN LATERAL (
    SELECT
        -- Further requests that may run; null: no limit.
        min(s.connection_limit - CASE WHEN s.connection_limit IS NOT NULL THEN (
            SELECT count(*) FROM jobs r
            WHERE r.state = 'running' AND r.queue < 0 AND r.origin = s.origin
                AND s.tenant IN ('', r.tenant) AND s.path IN ('', r.scope_path))
            + (SELECT coalesce(sum(o.count), 0) FROM open_connections o
                WHERE o.origin = s.origin AND s.tenant IN ('', o.tenant) AND s.path IN ('', o.path))
            END) AS room,
        max(s.blocked_until) FILTER (WHERE s.blocked_until > now()) AS blocked_until,
        -- Further requests that may begin now; null: no limit.
        min(request_credit(s.request_rate, s.request_credit, s.request_credit_at)) AS request_credit
    FROM host_limits s
    WHERE s.origin = l.origin AND s.tenant IN ('', l.tenant) AND s.path IN ('', l.path)) h;

-- Schedules -------------------------------------------------------------------------------------------------

CREATE TABLE schedules (
    id uuid NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    run_count bigint NOT NULL DEFAULT 0,
    missed_count bigint NOT NULL DEFAULT 0,
    skipped_count bigint NOT NULL DEFAULT 0,
    -- Grows with every change by a client, not with runs.
    revision integer NOT NULL DEFAULT 1,
    -- The next occurrence waits for the end of an earlier one's jobs.
    is_held boolean NOT NULL DEFAULT false,
    -- Jobs of earlier occurrences matter.
    watches_jobs boolean NOT NULL,
    -- The next occurrence, and when it is to be looked at; null if there is none, or while the schedule is
    -- paused.
    next_scheduled_at timestamptz,
    next_run_at timestamptz,
    last_scheduled_at timestamptz,
    last_run_at timestamptz,
    last_job uuid,
    -- When an occurrence was last skipped.
    last_skipped_at timestamptz,
    tenant text NOT NULL,
    -- The accepted fields but the jobs, a JSON object.
    definition text NOT NULL,
    -- The jobs of a run, in their order: as in jobs, with placeholders. An element of `secrets` or `payloads`
    -- is null if the job has none.
    specs text[] NOT NULL,
    secrets bytea[] NOT NULL,
    payloads bytea[] NOT NULL,
    -- Of a list of jobs: the group of those that name none, and whether each run closes it. Null if the
    -- client gave one job.
    job_group text,
    closes_group boolean,
    -- Why an occurrence was last skipped (ScheduleSkip in the source).
    skip_reason text,
    -- The staged uploads that the jobs send: id:UUID, or name:NAME. Null: none.
    uploads text[],
    CONSTRAINT schedules_pkey PRIMARY KEY (id)
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
-- Due schedules, and the time of the next one.
-- Used by due_schedules, next_schedule.
CREATE INDEX schedules_due ON schedules (next_run_at) WHERE next_run_at IS NOT NULL;
-- Schedules that send an upload. Few schedules do.
-- Used by is_upload_scheduled.
CREATE INDEX schedules_uploads ON schedules USING gin (uploads) WHERE uploads IS NOT NULL;
-- Lists, newest first. Partial on paper.
-- Used by list_schedules.
CREATE INDEX schedules_tenant ON schedules (tenant, id) WHERE tenant IS NOT NULL;

-- Returns uploads as in schedules.uploads; null if there are none.
CREATE FUNCTION scheduled_uploads(ids uuid[], names text[]) RETURNS text[] LANGUAGE sql IMMUTABLE
RETURN nullif(ARRAY(
    SELECT 'id:' || i FROM unnest(ids) AS i
    UNION ALL SELECT 'name:' || n FROM unnest(names) AS n WHERE n IS NOT NULL), '{}');

-- Returns whether a schedule with a next occurrence sends an upload.
CREATE FUNCTION is_upload_scheduled(owner text, needed uuid, needed_name text) RETURNS boolean
LANGUAGE sql STABLE AS $$
-- Counts, since the planner may scan all schedules for EXISTS.
SELECT count(*) > 0
FROM schedules s
WHERE s.uploads && scheduled_uploads(ARRAY[needed], ARRAY[needed_name]) AND s.next_run_at IS NOT NULL
    AND s.tenant = owner
$$;

-- The jobs of each occurrence: written once, in the transaction that inserts the jobs.
CREATE TABLE schedule_runs (
    schedule uuid NOT NULL,
    scheduled_at timestamptz NOT NULL,
    job uuid NOT NULL,
    -- Place of the job in the schedule's list, from 0.
    place integer NOT NULL,
    CONSTRAINT schedule_runs_pkey PRIMARY KEY (schedule, scheduled_at, place)
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);
-- Housekeeping scans it again and again.
-- Used by sweep_runs.
CREATE INDEX schedule_runs_job ON schedule_runs (job);
-- Jobs of a schedule, newest first.
-- Used by list_jobs.
CREATE INDEX schedule_runs_list ON schedule_runs (schedule, job);

-- Bulk operations -------------------------------------------------------------------------------------------

CREATE TYPE bulk_command AS ENUM ('suspend', 'resume', 'cancel', 'retry');
CREATE TYPE bulk_state AS ENUM ('running', 'succeeded', 'failed', 'cancelled');

-- Commands of clients for many jobs. A node carries a running one out in steps: each locks the row, changes
-- jobs and moves `position`, in one transaction.
CREATE TABLE bulk_operations (
    id uuid NOT NULL,
    -- The operation covers jobs that were created until then.
    created_at timestamptz NOT NULL,
    -- When the next step of a running operation is due.
    step_at timestamptz NOT NULL,
    -- Jobs looked at, and jobs changed.
    examined bigint NOT NULL DEFAULT 0,
    changed bigint NOT NULL DEFAULT 0,
    -- Upper bound of the jobs still to be looked at (exclusive): the newest come first.
    position uuid NOT NULL,
    command bulk_command NOT NULL,
    state bulk_state NOT NULL,
    -- A cancellation keeps the bytes of downloads for other jobs.
    keeps_bytes boolean NOT NULL,
    finished_at timestamptz,
    tenant text NOT NULL,
    -- Numbers of jobs that were not changed by reason (BulkReason in the source), a JSON object.
    reasons text NOT NULL DEFAULT '{}',
    traceparent text NOT NULL,
    -- Which jobs: a filter (JobFilter in the source), a JSON object, or identifiers.
    filter text,
    ids uuid[],
    CONSTRAINT bulk_operations_pkey PRIMARY KEY (id),
    CONSTRAINT bulk_operations_selection CHECK ((filter IS NULL) <> (ids IS NULL)),
    CONSTRAINT bulk_operations_end CHECK ((state = 'running') = (finished_at IS NULL))
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200,
        autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);
-- The running operation whose next step is due first.
-- Used by claim_bulk_operation, next_bulk_operation.
CREATE INDEX bulk_operations_running ON bulk_operations (step_at) WHERE state = 'running';
-- Running operations of a tenant.
-- Used by create_bulk_operation.
CREATE INDEX bulk_operations_running_tenant ON bulk_operations (tenant) WHERE state = 'running';
-- Lists, newest first. Partial on paper.
-- Used by list_bulk_operations.
CREATE INDEX bulk_operations_tenant ON bulk_operations (tenant, id) WHERE tenant IS NOT NULL;
-- Housekeeping removes the oldest.
-- Used by remove_old_bulk_operations.
CREATE INDEX bulk_operations_finished ON bulk_operations (finished_at) WHERE finished_at IS NOT NULL;

-- Nodes -----------------------------------------------------------------------------------------------------

CREATE TABLE nodes (
    id uuid NOT NULL,
    started_at timestamptz NOT NULL,
    -- The lease: a node that is silent for longer has lost its jobs.
    heartbeat_at timestamptz NOT NULL,
    running integer NOT NULL,
    draining boolean NOT NULL,
    is_worker boolean NOT NULL,
    -- The node leases nothing more, until it is told otherwise or its process is another one.
    drain_requested boolean NOT NULL DEFAULT false,
    -- The node alone counts connections to hosts whose sessions limit them, in memory (PermitLease in the
    -- source).
    has_permits boolean NOT NULL DEFAULT false,
    name text NOT NULL,
    version text NOT NULL,
    -- How many of its jobs move bytes under each shared rate limit (RateDemand in the source), a JSON object.
    -- Null: not known.
    rate_demand text,
    -- Address at which other nodes reach it. Null: it advertises none.
    url text,
    CONSTRAINT nodes_pkey PRIMARY KEY (id)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 50,
        autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);

-- Returns whether a shard of job_counts or job_group_counts is no longer written: its node has been silent
-- for so many seconds, or its connection has left it for a new one (set_shard.sql) a minute ago.
CREATE FUNCTION is_former_shard(shard text, silent_seconds double precision) RETURNS boolean LANGUAGE sql
STABLE AS $$
    SELECT CASE WHEN shard ~ '/[0-9]{1,15}$' THEN
            substring(shard FROM '[0-9]+$')::bigint < extract(epoch FROM now()) - 60 END
        OR NOT EXISTS (
            SELECT FROM nodes n
            WHERE shard LIKE n.id::text || '/%'
                AND n.heartbeat_at >= now() - make_interval(secs => silent_seconds))
$$;

-- Nodes that have left the table nodes. Whoever asks for a file that only such a node has learns since when
-- the node is away. A node that comes back has rows in both tables; the one in nodes counts.
CREATE TABLE former_nodes (
    id uuid NOT NULL,
    -- Its last heartbeat.
    heartbeat_at timestamptz NOT NULL,
    CONSTRAINT former_nodes_pkey PRIMARY KEY (id)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 50,
        autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);

-- One row: what operators tell all nodes. Every change of it, or of nodes.drain_requested, raises the
-- revision, so that a node recognizes an old value.
CREATE TABLE operations (
    revision bigint NOT NULL DEFAULT 0,
    -- No node leases jobs.
    paused boolean NOT NULL DEFAULT false,
    -- Nor does any node claim deliveries, run schedules or probe hosts.
    held boolean NOT NULL DEFAULT false,
    is_only boolean NOT NULL DEFAULT true,
    CONSTRAINT operations_pkey PRIMARY KEY (is_only),
    CONSTRAINT operations_has_one_row CHECK (is_only),
    CONSTRAINT operations_held_is_paused CHECK (paused OR NOT held)
);
INSERT INTO operations DEFAULT VALUES;

-- One row: the sweeps of the content store, if that is a bucket. The store has a generation too, in an object
-- (ContentGeneration in the source). If it is higher than this one, this database was restored.
CREATE TABLE content_store (
    -- Each sweep raises it, here before in the store.
    generation bigint NOT NULL DEFAULT 0,
    -- When the last sweep began; null: none has.
    swept_at timestamptz,
    is_only boolean NOT NULL DEFAULT true,
    CONSTRAINT content_store_pkey PRIMARY KEY (is_only),
    CONSTRAINT content_store_has_one_row CHECK (is_only)
);
INSERT INTO content_store DEFAULT VALUES;

-- Keys, settings and audit ----------------------------------------------------------------------------------

CREATE TYPE key_role AS ENUM ('viewer', 'client', 'admin');

CREATE TABLE api_keys (
    id uuid NOT NULL,
    created_at timestamptz NOT NULL,
    role key_role NOT NULL,
    revoked_at timestamptz,
    tenant text NOT NULL,
    name text NOT NULL,
    -- SHA-256 of the key. The key itself is shown once and not stored.
    hash bytea NOT NULL,
    CONSTRAINT api_keys_pkey PRIMARY KEY (id),
    CONSTRAINT api_keys_hash_is_unique UNIQUE (hash)
);

-- The first response to an idempotency key, for 24 hours. A tenant uses a key for one request, whatever its
-- method and path.
CREATE TABLE idempotency_keys (
    created_at timestamptz NOT NULL,
    node uuid NOT NULL,
    tenant text NOT NULL,
    key text NOT NULL,
    route text NOT NULL,
    fingerprint bytea NOT NULL,
    job_ids uuid[] NOT NULL,
    states text[] NOT NULL,
    next_attempts_at timestamptz[] NOT NULL,
    -- A byte for each job: 1 if the job existed before the request (unique keys). Null: the request created
    -- all.
    existing bytea,
    -- What only the first response showed, such as an API key; its repetition shows it again. Sealed.
    secret bytea,
    CONSTRAINT idempotency_keys_pkey PRIMARY KEY (tenant, key)
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);
-- Housekeeping removes the oldest.
-- Used by remove_old_keys.
CREATE INDEX idempotency_keys_created ON idempotency_keys (created_at);

-- Values that Ferry creates at its first start, such as keys.
CREATE TABLE settings (
    name text NOT NULL,
    value bytea NOT NULL,
    CONSTRAINT settings_pkey PRIMARY KEY (name)
);

-- Limits of tenants, which operators set; null: no limit. Tenants without a row have none.
CREATE TABLE tenant_limits (
    -- Jobs of all nodes.
    unfinished_jobs bigint,
    -- Bytes of bodies in a day (UTC), counted in tenant_transfers.
    bytes_per_day bigint,
    -- Managed files and kept bodies.
    storage_bytes bigint,
    -- Requests to the API of one node.
    requests_per_second bigint,
    tenant text NOT NULL,
    CONSTRAINT tenant_limits_pkey PRIMARY KEY (tenant)
);

-- Bytes of bodies that attempts have received and sent, of tenants with a limit of bytes in a day. Each node
-- writes a row of its own, and a new one each ten minutes: an old snapshot keeps few versions of a row.
CREATE TABLE tenant_transfers (
    -- Begin of the ten minutes in which the attempts have ended.
    since timestamptz NOT NULL,
    node uuid NOT NULL,
    bytes bigint NOT NULL,
    tenant text NOT NULL,
    CONSTRAINT tenant_transfers_pkey PRIMARY KEY (tenant, since, node)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200,
        autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);

-- Housekeeping removes the oldest.
-- Used by remove_old_transfers.
CREATE INDEX tenant_transfers_since ON tenant_transfers (since);

-- Requests of operators that change something; written before they are carried out.
CREATE TABLE audit (
    -- UUIDv7: ordered by time.
    id uuid NOT NULL,
    requested_at timestamptz NOT NULL,
    -- Of the response; null: the outcome is not known.
    status integer,
    -- Null: the key of the configuration.
    key uuid,
    operation text NOT NULL,
    path text NOT NULL,
    request_id text NOT NULL,
    -- Of a request that was carried out.
    body text,
    CONSTRAINT audit_pkey PRIMARY KEY (id)
);
