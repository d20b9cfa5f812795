-- Reads operator settings in one snapshot: the revision, whether the service is paused, whether the node
-- drains, and whether the pause holds deliveries, schedules and probes. Locks nothing. $1 node, $2 start of
-- its process.
SELECT o.revision, o.paused, coalesce((
    SELECT drain_requested AND started_at = $2::timestamptz FROM nodes WHERE id = $1::uuid), false), o.held
FROM operations o
