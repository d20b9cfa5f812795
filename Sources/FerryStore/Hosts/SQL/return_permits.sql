-- Returns the permits of a node (take_permits.sql): running jobs and rows of connections say from now on
-- which connections are in use. Locks: its row. $1 the node.
UPDATE nodes SET has_permits = false WHERE id = $1::uuid
