-- Events on their way to webhooks: an outbox, written in the transaction that finishes the job.

CREATE TYPE delivery_state AS ENUM ('pending', 'accepted', 'given_up');

-- The last sequence number of each session's events.
CREATE TABLE sessions (
    tenant text NOT NULL,
    name text NOT NULL,
    last_sequence bigint NOT NULL,
    CONSTRAINT sessions_pkey PRIMARY KEY (tenant, name)
) WITH (fillfactor = 50);

CREATE TABLE deliveries (
    id uuid NOT NULL,
    event uuid NOT NULL,
    job uuid NOT NULL,
    sequence bigint NOT NULL,
    occurred_at timestamptz NOT NULL,
    -- Also the end of the lease of a sender that is trying.
    next_try_at timestamptz NOT NULL,
    tries integer NOT NULL DEFAULT 0,
    state delivery_state NOT NULL DEFAULT 'pending',
    type text NOT NULL,
    tenant text NOT NULL,
    session text NOT NULL,
    url text NOT NULL,
    -- The job as it was when the event happened, a JSON object.
    job_json text NOT NULL,
    -- The job's, sealed; with its own signing secret if it has one.
    secrets bytea,
    traceparent text,
    CONSTRAINT deliveries_pkey PRIMARY KEY (id)
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);
-- Senders read what is due.
CREATE INDEX deliveries_due ON deliveries (next_try_at) WHERE state = 'pending';
-- The oldest event that nobody has accepted; identifiers are ordered by time.
CREATE INDEX deliveries_pending ON deliveries (id) WHERE state = 'pending';
-- The deliveries of a job.
CREATE INDEX deliveries_job ON deliveries (job);
-- Lists, newest first; partial as jobs_tenant.
CREATE INDEX deliveries_tenant ON deliveries (tenant, id) WHERE tenant IS NOT NULL;

CREATE TABLE delivery_tries (
    delivery uuid NOT NULL,
    number integer NOT NULL,
    started_at timestamptz NOT NULL,
    -- Seconds.
    duration double precision NOT NULL,
    status integer,
    error text,
    -- The start of the receiver's answer.
    answer text NOT NULL,
    CONSTRAINT delivery_tries_pkey PRIMARY KEY (delivery, number)
);
