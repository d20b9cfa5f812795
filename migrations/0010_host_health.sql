-- How hosts do: what is known of those that are in trouble or have rules of their own.

ALTER TABLE hosts
    -- HostCondition in the source, a JSON object.
    ADD COLUMN condition text NOT NULL DEFAULT '{}',
    -- When somebody has to look at it; null: when there is news.
    ADD COLUMN due_at timestamptz,
    -- Why nobody is reached there, an error's code; null: it is not known to be so.
    ADD COLUMN unreachable text,
    -- Jobs wait until it can be reached, and somebody looks for them or lets them go.
    ADD COLUMN is_awaited boolean NOT NULL DEFAULT false,
    -- Of all nodes together.
    ADD COLUMN bytes_per_second_max bigint;
CREATE INDEX hosts_due ON hosts (due_at) WHERE due_at IS NOT NULL;

-- The latest decisions about each host, 50 at most.
CREATE TABLE host_decisions (
    origin text NOT NULL,
    number bigint GENERATED ALWAYS AS IDENTITY,
    -- HostDecision, a JSON object.
    decision text NOT NULL,
    CONSTRAINT host_decisions_pkey PRIMARY KEY (origin, number)
);

ALTER TABLE jobs
    -- How often it has waited for connectivity; its event is of the first time.
    ADD COLUMN connectivity_waits integer NOT NULL DEFAULT 0;
-- Those that wait for a host, the first to go first.
CREATE INDEX jobs_connectivity ON jobs (origin, priority DESC, id)
    WHERE state = 'waiting' AND waiting_for = 'connectivity';
