-- Schedules: what submits jobs again and again. And jobs that may wait for a good moment.

CREATE TABLE schedules (
    id uuid NOT NULL,
    tenant text NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    -- Grows with every change of what a client has said, not with runs.
    revision integer NOT NULL DEFAULT 1,
    -- The occurrence that comes next, and when it is to be looked at; null when there is none, or while the
    -- schedule is paused.
    next_scheduled_at timestamptz,
    next_run_at timestamptz,
    -- That occurrence waits for the end of an earlier one's job.
    is_held boolean NOT NULL DEFAULT false,
    -- Whether jobs of earlier occurrences matter.
    watches_jobs boolean NOT NULL,
    last_scheduled_at timestamptz,
    last_run_at timestamptz,
    last_job uuid,
    run_count bigint NOT NULL DEFAULT 0,
    missed_count bigint NOT NULL DEFAULT 0,
    skipped_count bigint NOT NULL DEFAULT 0,
    -- The accepted fields but the job, a JSON object.
    definition text NOT NULL,
    -- The job, as in `jobs`, with placeholders.
    spec text NOT NULL,
    secrets bytea,
    payload bytea,
    CONSTRAINT schedules_pkey PRIMARY KEY (id),
    CONSTRAINT schedules_run_has_occurrence CHECK ((next_run_at IS NULL) = (next_scheduled_at IS NULL))
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
-- What is due is read from here, and the time of the next one.
CREATE INDEX schedules_due ON schedules (next_run_at) WHERE next_run_at IS NOT NULL;
-- Lists, newest first; partial as jobs_tenant.
CREATE INDEX schedules_tenant ON schedules (tenant, id) WHERE tenant IS NOT NULL;

-- Which job each occurrence became: written in the transaction that inserts the job, once.
CREATE TABLE schedule_runs (
    schedule uuid NOT NULL,
    scheduled_at timestamptz NOT NULL,
    job uuid NOT NULL,
    CONSTRAINT schedule_runs_pkey PRIMARY KEY (schedule, scheduled_at)
);
-- Housekeeping goes through it, again and again from the start.
CREATE INDEX schedule_runs_job ON schedule_runs (job);

ALTER TABLE jobs
    -- Of a job that waits for a good moment: from when it may start, and how many bytes it expects.
    ADD COLUMN discretionary_from timestamptz,
    ADD COLUMN discretionary_bytes bigint;
-- Those that may start, in the order in which they do.
CREATE INDEX jobs_discretionary ON jobs (discretionary_from)
    WHERE state = 'waiting' AND waiting_for = 'discretionary';

-- How fast transfers with an origin were, for those that have to start in time.
CREATE TABLE host_throughputs (
    -- scheme://host:port
    origin text NOT NULL,
    bytes_per_second double precision NOT NULL,
    measured_at timestamptz NOT NULL,
    CONSTRAINT host_throughputs_pkey PRIMARY KEY (origin)
);
CREATE INDEX host_throughputs_measured ON host_throughputs (measured_at);
