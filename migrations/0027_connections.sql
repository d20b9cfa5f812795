-- Connections that running attempts have beyond the one to their own origin with which they were leased: of
-- parts, mirrors and redirects, as far as something limits their origin. Together with the running rows of
-- `jobs` they are what a limit counts.

CREATE TABLE connections (
    -- Where they lead, scheme://host:port.
    origin text NOT NULL,
    job uuid NOT NULL,
    attempt integer NOT NULL,
    tenant text NOT NULL,
    session text NOT NULL,
    count integer NOT NULL,
    CONSTRAINT connections_pkey PRIMARY KEY (origin, job, attempt),
    CONSTRAINT connections_count_is_positive CHECK (count > 0)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 200,
        autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);

-- Those that count: with their attempt they are gone, whatever has become of its node.
CREATE VIEW open_connections AS
SELECT c.origin, c.job, c.attempt, c.tenant, c.session, c.count FROM connections c
WHERE (
    SELECT j.state = 'running' AND j.attempt = c.attempt FROM jobs j WHERE j.id = ANY (ARRAY[c.job]));
