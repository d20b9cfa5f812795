-- Replaces the limits of the scopes of hosts that this transaction has locked; scopes that are not named have
-- no limit any more.
-- Locks: their rows, in order of origin, tenant and path, like claims (lock_claim_queues.sql): widest scope
-- first.
-- $1 origins. One array element a scope: $2 origins, $3 tenants, $4 paths, $5 connection limit or null, $6
-- end of the hold or null, $7 requests per second or null.
WITH held AS MATERIALIZED (
    SELECT origin, tenant, path FROM host_limits
    WHERE origin = ANY ($1::text[]) ORDER BY origin, tenant, path FOR UPDATE
), wanted AS MATERIALIZED (
    SELECT * FROM unnest(
        $2::text[], $3::text[], $4::text[], $5::integer[], $6::timestamptz[], $7::double precision[]
    ) AS u(origin, tenant, path, connection_limit, blocked_until, request_rate)
), gone AS (
    DELETE FROM host_limits l USING held h
    WHERE l.origin = h.origin AND l.tenant = h.tenant AND l.path = h.path AND NOT EXISTS (
        SELECT FROM wanted w WHERE w.origin = h.origin AND w.tenant = h.tenant AND w.path = h.path)
)
INSERT INTO host_limits AS l (origin, tenant, path, connection_limit, blocked_until, request_rate)
-- Reads `held` first, so that its locks are taken before the insert.
SELECT w.origin, w.tenant, w.path, w.connection_limit, w.blocked_until, w.request_rate
FROM wanted w, (SELECT count(*) FROM held) AS locked
ORDER BY w.origin, w.tenant, w.path
ON CONFLICT (origin, tenant, path) DO UPDATE SET
    connection_limit = excluded.connection_limit, blocked_until = excluded.blocked_until,
    request_rate = excluded.request_rate,
    -- Tokens are credited at the old rate before the rate changes.
    request_credit = coalesce(
        request_credit(l.request_rate, l.request_credit, l.request_credit_at), l.request_credit),
    request_credit_at = now()
WHERE (l.connection_limit, l.blocked_until, l.request_rate)
    IS DISTINCT FROM (excluded.connection_limit, excluded.blocked_until, excluded.request_rate)
