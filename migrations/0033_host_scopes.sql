-- Limits of scopes: what limits the requests of everybody, of one tenant, or of one tenant below one first
-- path segment of an origin. A row exists while the scope is limited. It replaces the limits in `hosts`,
-- which keeps what is known of an origin and decides about its scopes.
CREATE TABLE host_limits (
    -- scheme://host:port
    origin text NOT NULL,
    -- Empty: every tenant.
    tenant text NOT NULL DEFAULT '',
    -- First path segment and hash of the credentials (RequestScope.path). Empty: every path.
    path text NOT NULL DEFAULT '',
    -- Requests at once, all nodes together; null: no limit.
    connection_limit integer,
    -- Nothing begins before; null: no hold.
    blocked_until timestamptz,
    -- Requests begun per second, all nodes together; null: no limit.
    request_rate double precision,
    -- Tokens of the rate that were left when a request began last, and when that was.
    request_credit double precision NOT NULL DEFAULT 1,
    request_credit_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT host_limits_pkey PRIMARY KEY (origin, tenant, path),
    CONSTRAINT host_limits_host FOREIGN KEY (origin) REFERENCES hosts ON DELETE CASCADE,
    CONSTRAINT host_limits_connection_limit_is_positive CHECK (connection_limit > 0),
    CONSTRAINT host_limits_request_rate_is_positive CHECK (request_rate > 0)
) WITH (fillfactor = 70, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_cost_delay = 0,
        vacuum_truncate = off);

-- The scope of a job's request, apart from tenant and origin.
ALTER TABLE jobs ADD COLUMN scope_path text NOT NULL DEFAULT '';

-- Jobs of a path that is limited by itself queue in lots of that path. Empty: every other path.
ALTER TABLE lots ADD COLUMN path text NOT NULL DEFAULT '';
ALTER TABLE lots DROP CONSTRAINT lots_name_is_unique;
ALTER TABLE lots ADD CONSTRAINT lots_name_is_unique UNIQUE (tenant, session, origin, path, home);

DROP VIEW narrow_lots;
DROP VIEW open_connections;

-- The scope for whose requests an attempt has the connection.
ALTER TABLE connections ADD COLUMN path text NOT NULL DEFAULT '';
ALTER TABLE connections DROP CONSTRAINT connections_pkey;
ALTER TABLE connections ADD CONSTRAINT connections_pkey PRIMARY KEY (origin, path, job, attempt);

-- Connections of attempts that still run.
CREATE VIEW open_connections AS
SELECT c.origin, c.path, c.job, c.attempt, c.tenant, c.session, c.count FROM connections c
WHERE (
    SELECT j.state = 'running' AND j.attempt = c.attempt FROM jobs j WHERE j.id = ANY (ARRAY[c.job]));

-- Its decisions name no scope.
DELETE FROM host_decisions;

-- What operators have set stays; what was found out about hosts was for another kind of decision.
INSERT INTO host_limits (origin, connection_limit, blocked_until, request_rate)
SELECT origin, (condition::jsonb ->> 'max')::integer,
    CASE WHEN condition::jsonb ->> 'paused' = '1' THEN timestamptz '9999-12-31T23:59:59Z' END,
    (condition::jsonb ->> 'request_rate')::double precision
FROM hosts
WHERE condition::jsonb ?| ARRAY['max', 'paused', 'request_rate'];
UPDATE hosts SET due_at = now(), unreachable = NULL, is_awaited = false, condition = jsonb_build_object(
    'settings', jsonb_strip_nulls(jsonb_build_object(
        'connectionsMin', condition::jsonb -> 'min', 'connectionsMax', condition::jsonb -> 'max',
        'isPaused', CASE WHEN condition::jsonb ->> 'paused' = '1' THEN true END,
        'bytesPerSecondMax', condition::jsonb -> 'rate',
        'requestsPerSecondMax', condition::jsonb -> 'request_rate')))::text;
DROP INDEX hosts_limited;
ALTER TABLE hosts
    DROP COLUMN connection_limit, DROP COLUMN blocked_until, DROP COLUMN request_rate,
    DROP COLUMN request_credit, DROP COLUMN request_credit_at;

-- What the limits of a narrow lot leave: those of the scopes that hold for all its jobs. Of a lot without a
-- path these are the limits of the tenant and the origin; jobs of paths that are limited by themselves are
-- stepped over there. Connections of the session count in all lots of the session and origin together.
CREATE VIEW narrow_lots AS
SELECT l.id AS lot, l.tenant, l.session, l.origin, l.path, l.home,
    (SELECT count(*) FROM jobs r
        WHERE r.state = 'running' AND r.lot < 0 AND r.origin = l.origin AND r.lot = ANY (ARRAY(
            SELECT s.id FROM lots s
            WHERE s.tenant = l.tenant AND s.session = l.session AND s.origin = l.origin)))
        + (SELECT coalesce(sum(o.count), 0) FROM open_connections o
            WHERE o.origin = l.origin AND o.tenant = l.tenant AND o.session = l.session) AS session_count,
    h.room, h.blocked_until, h.request_credit
FROM lots l CROSS JOIN LATERAL (
    SELECT
        -- More requests that may run; null: no limit.
        min(s.connection_limit - CASE WHEN s.connection_limit IS NOT NULL THEN (
            SELECT count(*) FROM jobs r
            WHERE r.state = 'running' AND r.lot < 0 AND r.origin = s.origin
                AND s.tenant IN ('', r.tenant) AND s.path IN ('', r.scope_path))
            + (SELECT coalesce(sum(o.count), 0) FROM open_connections o
                WHERE o.origin = s.origin AND s.tenant IN ('', o.tenant) AND s.path IN ('', o.path))
            END) AS room,
        max(s.blocked_until) FILTER (WHERE s.blocked_until > now()) AS blocked_until,
        -- More requests that may begin now; null: no limit.
        min(request_credit(s.request_rate, s.request_credit, s.request_credit_at)) AS request_credit
    FROM host_limits s
    WHERE s.origin = l.origin AND s.tenant IN ('', l.tenant) AND s.path IN ('', l.path)) h;
