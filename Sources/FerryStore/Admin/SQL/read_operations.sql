-- Reads what a node is to do, in one snapshot: the revision, whether the service is paused, whether the node
-- drains. Locks nothing. $1 the node, $2 when its process began.
SELECT o.revision, o.paused, coalesce((
    SELECT drain_requested AND started_at = $2::timestamptz FROM nodes WHERE id = $1::uuid), false)
FROM operations o
