-- What clients say about when a job is to run.

ALTER TABLE jobs
    -- When the job must have ended; expires_at is not later. Null: whenever that is.
    ADD COLUMN deadline_at timestamptz,
    -- Others are to be told of its end.
    ADD COLUMN has_dependents boolean NOT NULL DEFAULT false,
    -- At next_attempt_at something is to be asked about it, or nobody has answered.
    ADD COLUMN asks boolean NOT NULL DEFAULT false,
    -- What is being asked (JobQuestion in the source), a JSON object.
    ADD COLUMN question text;
ALTER TYPE waiting_for ADD VALUE 'redirect';

-- What is to be asked.
CREATE INDEX jobs_asking ON jobs (next_attempt_at) WHERE state = 'waiting' AND asks;
-- The next deadline, and those that have passed. Most jobs have none and are not in it.
CREATE INDEX jobs_deadline ON jobs (deadline_at) WHERE deadline_at IS NOT NULL;

-- What a job still waits for. What has ended is struck out.
CREATE TABLE job_dependencies (
    dependency uuid NOT NULL,
    dependent uuid NOT NULL,
    CONSTRAINT job_dependencies_pkey PRIMARY KEY (dependency, dependent)
);
CREATE INDEX job_dependencies_dependent ON job_dependencies (dependent);

-- What dependents have to be looked at for: an outbox, written in the transaction that ends a job or submits
-- one.
CREATE TABLE dependency_news (
    position bigint GENERATED ALWAYS AS IDENTITY,
    job uuid NOT NULL,
    -- The terminal state of a job that others depend on. Null: the job itself depends on others.
    state job_state,
    CONSTRAINT dependency_news_pkey PRIMARY KEY (position)
) WITH (autovacuum_vacuum_threshold = 200, autovacuum_vacuum_scale_factor = 0,
        autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);

-- As in 0006, with what is new to wait for.
CREATE OR REPLACE FUNCTION event_pack(
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
        | (CASE reason::text WHEN 'begin_date' THEN 1 WHEN 'discretionary' THEN 2 WHEN 'connectivity' THEN 3
            WHEN 'retry' THEN 4 WHEN 'dependency' THEN 5 WHEN 'challenge' THEN 6
            WHEN 'confirmation' THEN 7 WHEN 'redirect' THEN 8 ELSE 0 END))
        || uuid_send(job) || int8send((extract(epoch FROM at) * 1000000)::bigint)
        || int4send(attempt) || int4send(revision)
        || int4send(coalesce(length(detail), 0)) || coalesce(detail, ''::bytea)
$$;
