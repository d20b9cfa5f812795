-- Moves a node that ends to the former nodes, unless it still holds jobs: lock_jobs_of_dead_nodes.sql finds
-- those by its row. Locks: its rows. $1 the node.
WITH gone AS (
    DELETE FROM nodes n
    WHERE n.id = $1::uuid AND NOT EXISTS (SELECT FROM jobs r WHERE r.node = n.id)
    RETURNING id, heartbeat_at
)
INSERT INTO former_nodes (id, heartbeat_at) SELECT id, heartbeat_at FROM gone
ON CONFLICT (id) DO UPDATE SET heartbeat_at = excluded.heartbeat_at
