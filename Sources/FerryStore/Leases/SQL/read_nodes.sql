-- Reads the nodes, the oldest first. Locks nothing. The last column is the age of the heartbeat in seconds.
SELECT id, name, version, started_at, running, draining OR drain_requested, is_worker,
    greatest(0, extract(epoch FROM now() - heartbeat_at))::double precision
FROM nodes ORDER BY started_at, id
