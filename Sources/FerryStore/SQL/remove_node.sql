-- Removes a node that says goodbye. Locks: its row. $1 the node.
DELETE FROM nodes WHERE id = $1::uuid
