-- Some hosts count requests: however few are in flight, so many a second are too many. What begins there is
-- paid for from a credit that grows with time; like its limit it holds for all nodes together.
ALTER TABLE hosts
    -- Transfers begun a second; null: no limit.
    ADD COLUMN request_rate double precision,
    -- What was left of it when something began there last, and when that was.
    ADD COLUMN request_credit double precision NOT NULL DEFAULT 1,
    ADD COLUMN request_credit_at timestamptz NOT NULL DEFAULT now(),
    ADD CONSTRAINT hosts_request_rate_is_positive CHECK (request_rate > 0);
DROP INDEX hosts_limited;
CREATE INDEX hosts_limited ON hosts (origin)
    WHERE connection_limit IS NOT NULL OR blocked_until IS NOT NULL OR request_rate IS NOT NULL;

-- What comes together at most: that of a fiftieth of a second, and of the next one half, so that nothing is
-- lost when somebody is late (also HostLimit in the source).
CREATE FUNCTION request_burst(rate double precision) RETURNS double precision
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN rate IS NOT NULL THEN greatest(1.5, rate / 50) END;

-- What a credit has become by now; null: nothing limits what begins.
CREATE FUNCTION request_credit(rate double precision, credit double precision, since timestamptz)
RETURNS double precision
LANGUAGE sql STABLE PARALLEL SAFE
RETURN CASE WHEN rate IS NOT NULL THEN least(
    request_burst(rate),
    credit + rate * greatest(0, extract(epoch FROM now() - since)::double precision)) END;

CREATE OR REPLACE VIEW narrow_lots AS
SELECT l.id AS lot, l.tenant, l.session, l.origin, l.home, h.connection_limit,
    CASE WHEN h.blocked_until > now() THEN h.blocked_until END AS blocked_until,
    -- Connections of the session to the origin, and of everybody.
    (SELECT count(*) FROM jobs r
        WHERE r.state = 'running' AND r.lot < 0 AND r.origin = l.origin AND r.lot = ANY (ARRAY(
            SELECT s.id FROM lots s
            WHERE s.tenant = l.tenant AND s.session = l.session AND s.origin = l.origin)))
        + (SELECT coalesce(sum(o.count), 0) FROM open_connections o
            WHERE o.origin = l.origin AND o.tenant = l.tenant AND o.session = l.session) AS session_count,
    (SELECT count(*) FROM jobs r WHERE r.state = 'running' AND r.lot < 0 AND r.origin = l.origin)
        + (SELECT coalesce(sum(o.count), 0) FROM open_connections o WHERE o.origin = l.origin) AS host_count,
    h.request_rate,
    request_credit(h.request_rate, h.request_credit, h.request_credit_at) AS request_credit
FROM lots l LEFT JOIN hosts h ON h.origin = ANY (ARRAY[l.origin]);
