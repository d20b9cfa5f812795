-- Reads the nodes, the oldest first. Locks nothing. $1 seconds of a lease. Column 7 is the age of the
-- heartbeat in seconds, column 9 whether the node is dead.
SELECT id, name, version, started_at, running, draining OR drain_requested, is_worker,
    greatest(0, extract(epoch FROM now() - heartbeat_at))::double precision, url,
    heartbeat_at < now() - make_interval(secs => $1::double precision)
FROM nodes ORDER BY started_at, id
