-- Reads the nodes, the oldest first. Locks nothing. Column 7 is the age of the heartbeat in seconds.
SELECT id, name, version, started_at, running, draining OR drain_requested, is_worker,
    greatest(0, extract(epoch FROM now() - heartbeat_at))::double precision, url
FROM nodes ORDER BY started_at, id
