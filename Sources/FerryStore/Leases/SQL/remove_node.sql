-- Removes a node that says goodbye, unless it holds jobs after all: rescue_jobs.sql finds those by its row.
-- Locks: its row. $1 the node.
DELETE FROM nodes n
WHERE n.id = $1::uuid AND NOT EXISTS (SELECT FROM jobs r WHERE r.state = 'running' AND r.node = n.id)
