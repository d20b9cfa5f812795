-- Leases all permits to connect to limited hosts to a node, which counts connections in memory from then on.
-- Does nothing if another node is alive or holds a job. Call after wait_for_lock.sql: a node that begins to
-- beat either is seen here, or sees the lease.
-- Locks: the node's row. $1 the node, $2 seconds after which a silent node is dead. Returns the node.
UPDATE nodes SET has_permits = true
WHERE id = $1::uuid
    AND NOT EXISTS (
        SELECT FROM nodes o
        WHERE o.id <> $1::uuid AND o.heartbeat_at > now() - make_interval(secs => $2::double precision))
    -- The first and the last node in the index of leased jobs.
    AND coalesce(
        (SELECT j.node FROM jobs j WHERE j.node IS NOT NULL ORDER BY j.node LIMIT 1) = $1::uuid, true)
    AND coalesce(
        (SELECT j.node FROM jobs j WHERE j.node IS NOT NULL ORDER BY j.node DESC LIMIT 1) = $1::uuid, true)
RETURNING id
