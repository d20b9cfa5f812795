-- Finished jobs that stay until somebody acknowledges them. A row in `unacknowledged_jobs` holds one: what
-- removes finished jobs by time leaves it alone. Jobs that do not ask have none, and cost nothing.

ALTER TABLE finished_jobs
    -- When somebody has said that the result has arrived.
    ADD COLUMN acknowledged_at timestamptz,
    -- When it was waited for no more. The retention runs from the latest of the three.
    ADD COLUMN given_up_at timestamptz;

CREATE TABLE unacknowledged_jobs (
    job uuid NOT NULL,
    tenant text NOT NULL,
    session text NOT NULL,
    -- What the job asks for (AcknowledgementRules in the source).
    rules jsonb NOT NULL,
    is_by_webhook boolean NOT NULL GENERATED ALWAYS AS (rules ->> 'by' = 'webhook') STORED,
    -- As jobs.wanted_events.
    wanted_events integer,
    expires_at timestamptz NOT NULL,
    -- When the next reminder is due, or it is given up.
    next_look_at timestamptz NOT NULL,
    reminder_count integer NOT NULL DEFAULT 0,
    CONSTRAINT unacknowledged_jobs_pkey PRIMARY KEY (job)
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000);
CREATE INDEX unacknowledged_jobs_look ON unacknowledged_jobs (next_look_at);
-- Lists, newest first.
CREATE INDEX unacknowledged_jobs_tenant ON unacknowledged_jobs (tenant, job);
-- Whether there is any at all that a delivery could acknowledge.
CREATE INDEX unacknowledged_jobs_webhook ON unacknowledged_jobs (job) WHERE is_by_webhook;

-- When a job is looked at that has been reminded of so often, the last time at `since`.
CREATE FUNCTION reminder_at(rules jsonb, reminder_count integer, since timestamptz, expires_at timestamptz)
RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN reminder_count >= (rules -> 'reminders' ->> 'max_count')::integer THEN expires_at
        ELSE least(expires_at, since + make_interval(secs => least(
            (rules -> 'reminders' ->> 'max_delay')::double precision,
            (rules -> 'reminders' ->> 'initial_delay')::double precision
                * (rules -> 'reminders' ->> 'multiplier')::double precision ^ reminder_count))) END
$$;

-- Moves what stays of a partition that was taken away, as before, and what came too late to be named.
CREATE OR REPLACE FUNCTION drop_finished_jobs(name text, since timestamptz) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format(
        'INSERT INTO finished_jobs SELECT * FROM %1$I
         WHERE finished_at >= $1 OR id IN (SELECT job FROM unacknowledged_jobs)
         ON CONFLICT DO NOTHING', name)
        USING since;
    EXECUTE format('DROP TABLE %I', name);
END $$;

-- The jobs of a partition that stay when it goes: they ended since `since`, or were acknowledged or given up
-- since then, or wait for their acknowledgement. So many at most.
CREATE OR REPLACE FUNCTION late_finished_jobs(name text, since timestamptz, count_max integer)
RETURNS SETOF uuid LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN QUERY EXECUTE format(
        'SELECT id FROM %1$I WHERE finished_at >= $1 OR acknowledged_at >= $1 OR given_up_at >= $1
         UNION SELECT j.id FROM unacknowledged_jobs u JOIN %1$I j ON j.id = u.job LIMIT $2', name)
        USING since, count_max;
END $$;
