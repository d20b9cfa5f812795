-- Forgets nodes that have been away for $1 seconds. Locks: the removed rows.
DELETE FROM former_nodes WHERE heartbeat_at < now() - make_interval(secs => $1::double precision)
