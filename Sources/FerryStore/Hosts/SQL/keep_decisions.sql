-- Adds decisions about hosts and removes older ones. Locks: decisions of hosts that this transaction has
-- locked.
-- One array element a decision: $1 origins, $2 decisions. $3 minimum number of decisions kept of each host.
WITH added AS (
    INSERT INTO host_decisions (origin, decision) SELECT u.origin, u.decision
    FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS u(origin, decision, position) ORDER BY u.position
)
DELETE FROM host_decisions d
USING (SELECT DISTINCT u.origin FROM unnest($1::text[]) AS u(origin)) u
WHERE d.origin = u.origin AND d.number <= (
    SELECT o.number FROM host_decisions o WHERE o.origin = u.origin
    ORDER BY o.number DESC OFFSET $3::integer LIMIT 1)
