-- Origins whose use is limited just now, by whoever decides it. An origin without a row is free.

CREATE TABLE hosts (
    -- scheme://host:port
    origin text NOT NULL,
    -- Transfers at once, all nodes together; null: no limit. What runs is counted in `jobs`, not kept here,
    -- so that no crash can leave a wrong number.
    connection_limit integer,
    -- Nothing begins before; null: no backoff.
    blocked_until timestamptz,
    CONSTRAINT hosts_pkey PRIMARY KEY (origin),
    CONSTRAINT hosts_connection_limit_is_positive CHECK (connection_limit > 0)
) WITH (fillfactor = 70, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_cost_delay = 0,
        vacuum_truncate = off);

-- Each node reads them at each heartbeat.
CREATE INDEX hosts_limited ON hosts (origin)
    WHERE connection_limit IS NOT NULL OR blocked_until IS NOT NULL;
