-- What clients say about when a job is to run.

ALTER TABLE jobs
    -- When the job must have ended; expires_at is not later. Null: whenever that is.
    ADD COLUMN deadline_at timestamptz,
    -- Others are to be told of its end.
    ADD COLUMN has_dependents boolean NOT NULL DEFAULT false;

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
