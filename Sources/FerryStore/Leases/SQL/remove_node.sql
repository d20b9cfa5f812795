-- Removes a node that ends, unless it still holds jobs: lock_jobs_of_dead_nodes.sql finds those by its row.
-- Locks: its row. $1 the node.
DELETE FROM nodes n
WHERE n.id = $1::uuid AND NOT EXISTS (SELECT FROM jobs r WHERE r.node = n.id)
