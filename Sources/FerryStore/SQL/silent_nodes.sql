-- Reads nodes that have been silent for longer than their lease, and since when. Locks nothing. $1 seconds of
-- the lease.
SELECT id, heartbeat_at FROM nodes WHERE heartbeat_at < now() - make_interval(secs => $1::double precision)
