-- Starts or ends the drain of a node, and notifies the nodes. Locks: the row of operations, then the node's
-- row.
-- $1 node, $2 whether it drains. Returns the node; no row if there is no such node.
WITH raised AS (
    UPDATE operations SET revision = revision + 1 RETURNING revision
), changed AS (
    -- If the node stops, its next heartbeat says that it drains.
    UPDATE nodes SET drain_requested = $2::boolean, draining = is_worker AND $2::boolean
    FROM raised WHERE id = $1::uuid RETURNING id
)
SELECT id, pg_notify('ferry', 'operations') FROM changed
