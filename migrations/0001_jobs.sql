-- Jobs: unfinished ones in `jobs`, which stays small and hot; terminal ones in `finished_jobs`, whose rows
-- never change again. No foreign keys: what belongs together is written in one transaction.

CREATE TYPE job_kind AS ENUM ('download', 'upload', 'data');
CREATE TYPE job_state AS ENUM ('waiting', 'queued', 'running', 'suspended', 'succeeded', 'failed',
    'cancelled');
CREATE TYPE waiting_for AS ENUM (
    'begin_date', 'discretionary', 'connectivity', 'retry', 'dependency', 'challenge', 'confirmation');

CREATE TABLE jobs (
    id uuid NOT NULL,
    created_at timestamptz NOT NULL,
    -- When what it waits for is due.
    next_attempt_at timestamptz,
    started_at timestamptz,
    -- created_at + timeout_for_resource.
    expires_at timestamptz NOT NULL,
    node uuid,
    retry_of uuid,
    -- Grows with every change of state: what a change names to be sure that nobody came before it.
    revision integer NOT NULL DEFAULT 1,
    -- The fencing token: grows with every lease.
    attempt integer NOT NULL DEFAULT 0,
    failed_attempts integer NOT NULL DEFAULT 0,
    priority real NOT NULL,
    kind job_kind NOT NULL,
    state job_state NOT NULL,
    waiting_for waiting_for,
    cancel_requested boolean NOT NULL DEFAULT false,
    tenant text NOT NULL,
    session text NOT NULL,
    -- scheme://host:port
    origin text NOT NULL,
    -- The accepted fields, a JSON object; text, because it is shown byte for byte.
    spec text NOT NULL,
    metadata jsonb,
    -- Sealed.
    secrets bytea,
    -- The bytes of an inline source or body.
    payload bytea,
    -- Of the last attempt that failed, a JSON object.
    error text,
    traceparent text,
    CONSTRAINT jobs_pkey PRIMARY KEY (id),
    CONSTRAINT jobs_state_is_unfinished CHECK (state IN ('waiting', 'queued', 'running', 'suspended')),
    CONSTRAINT jobs_waiting_has_reason CHECK ((state = 'waiting') = (waiting_for IS NOT NULL)),
    CONSTRAINT jobs_running_has_node CHECK ((state = 'running') = (node IS NOT NULL)),
    CONSTRAINT jobs_running_has_attempt CHECK (state <> 'running' OR (attempt > 0 AND started_at IS NOT NULL))
) WITH (
    -- Dead index entries at the queue's head are how queues in PostgreSQL die: vacuum early and at full
    -- speed. vacuum_truncate would take an exclusive lock.
    fillfactor = 80, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_insert_scale_factor = 0.2, autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0.02, vacuum_truncate = off);

-- The claim reads the best rows from here, without a sort.
CREATE INDEX jobs_queued ON jobs (priority DESC, id) WHERE state = 'queued';
-- Promotion reads due rows, and the time of the next one.
CREATE INDEX jobs_waiting ON jobs (next_attempt_at) WHERE state = 'waiting';
-- What a node holds: at its restart, at its death, and when cancellations are looked for.
CREATE INDEX jobs_running ON jobs (node) WHERE state = 'running';
-- Lists, newest first; identifiers are ordered by time. Partial only on paper: a statement that does not name
-- the tenant cannot use it, so that a row is never looked up by its id through this index.
CREATE INDEX jobs_tenant ON jobs (tenant, id) WHERE tenant IS NOT NULL;
-- Resource timeouts of rows that no node holds. Nearly free to keep, and rows with one timeout lie in order.
CREATE INDEX jobs_expiry ON jobs USING brin (expires_at) WITH (pages_per_range = 32, autosummarize = on);
-- Lists by metadata.
CREATE INDEX jobs_metadata ON jobs USING gin (metadata jsonb_path_ops) WHERE metadata IS NOT NULL;

CREATE TABLE finished_jobs (
    id uuid NOT NULL,
    created_at timestamptz NOT NULL,
    started_at timestamptz,
    finished_at timestamptz NOT NULL,
    node uuid,
    retry_of uuid,
    revision integer NOT NULL,
    attempt integer NOT NULL,
    failed_attempts integer NOT NULL,
    kind job_kind NOT NULL,
    state job_state NOT NULL,
    tenant text NOT NULL,
    session text NOT NULL,
    origin text NOT NULL,
    spec text NOT NULL,
    metadata jsonb,
    -- For a later retry.
    secrets bytea,
    payload bytea,
    traceparent text,
    -- JSON objects.
    response text,
    result text,
    error text,
    -- Of a data job, when it is short enough.
    body bytea,
    CONSTRAINT finished_jobs_pkey PRIMARY KEY (id),
    CONSTRAINT finished_jobs_state_is_terminal CHECK (state IN ('succeeded', 'failed', 'cancelled')),
    CONSTRAINT finished_jobs_failed_has_error CHECK (state <> 'failed' OR error IS NOT NULL)
) WITH (autovacuum_vacuum_insert_scale_factor = 0.1);

-- Lists, newest first.
CREATE INDEX finished_jobs_tenant ON finished_jobs (tenant, id);
-- Lists by metadata.
CREATE INDEX finished_jobs_metadata ON finished_jobs USING gin (metadata jsonb_path_ops)
    WHERE metadata IS NOT NULL;

-- Exact counts of unfinished work. Each connection that changes them has a row (a shard) of its own, so that
-- lanes never wait for each other; only the sums mean something, and a row may be negative.
CREATE TABLE job_counts (
    shard text NOT NULL,
    waiting bigint NOT NULL DEFAULT 0,
    queued bigint NOT NULL DEFAULT 0,
    running bigint NOT NULL DEFAULT 0,
    suspended bigint NOT NULL DEFAULT 0,
    deliveries_pending bigint NOT NULL DEFAULT 0,
    CONSTRAINT job_counts_pkey PRIMARY KEY (shard)
) WITH (fillfactor = 10, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_scale_factor = 0,
        autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);

CREATE TABLE nodes (
    id uuid NOT NULL,
    name text NOT NULL,
    version text NOT NULL,
    started_at timestamptz NOT NULL,
    -- A node that is silent for longer than the lease has lost its jobs.
    heartbeat_at timestamptz NOT NULL,
    running integer NOT NULL,
    draining boolean NOT NULL,
    is_worker boolean NOT NULL,
    CONSTRAINT nodes_pkey PRIMARY KEY (id)
) WITH (fillfactor = 50);

-- The first answer to a key, for 24 hours.
CREATE TABLE idempotency_keys (
    tenant text NOT NULL,
    route text NOT NULL,
    key text NOT NULL,
    fingerprint bytea NOT NULL,
    job_ids uuid[] NOT NULL,
    states text[] NOT NULL,
    next_attempts_at timestamptz[] NOT NULL,
    node uuid NOT NULL,
    created_at timestamptz NOT NULL,
    CONSTRAINT idempotency_keys_pkey PRIMARY KEY (tenant, route, key)
);
-- Housekeeping removes the oldest.
CREATE INDEX idempotency_keys_created ON idempotency_keys (created_at);
