-- Reads what another node needs to reach a node, or to tell that it is away. Locks nothing. $1 the node.
-- The last column tells whether the node has left.
SELECT id, heartbeat_at, url, is_worker, false FROM nodes WHERE id = $1::uuid
UNION ALL
SELECT id, heartbeat_at, NULL, false, true FROM former_nodes
WHERE id = $1::uuid AND NOT EXISTS (SELECT FROM nodes WHERE id = $1::uuid)
