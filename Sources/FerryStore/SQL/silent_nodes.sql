-- Reads nodes that have been silent for longer than their lease, while this server was there to hear them,
-- and since when. Locks nothing. $1 seconds of the lease.
SELECT id, heartbeat_at FROM nodes
WHERE greatest(heartbeat_at, pg_postmaster_start_time())
    < now() - make_interval(secs => $1::double precision)
