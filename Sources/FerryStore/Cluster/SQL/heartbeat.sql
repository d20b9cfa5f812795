-- Writes a node's heartbeat. Locks: its row. $1 id, $2 name, $3 version, $4 started at, $5 running attempts,
-- $6 whether it stops, $7 whether it runs attempts, $9 its jobs under limits that all nodes share
-- (RateDemand), $10 its address for other nodes, or null.
-- Returns the database's time, the number of nodes that have beaten within $8 seconds, the number of workers
-- besides this node that do not drain, and of those that drain, the number of unfinished jobs, and the
-- RateDemand of those workers, null for a version that does not write it.
WITH beat AS (
    INSERT INTO nodes (id, name, version, started_at, heartbeat_at, running, draining, is_worker,
        rate_demand, url)
    VALUES ($1::uuid, $2::text, $3::text, $4::timestamptz, clock_timestamp(), $5::integer, $6::boolean,
        $7::boolean, $9::text, $10::text)
    ON CONFLICT (id) DO UPDATE SET
        name = excluded.name, version = excluded.version, started_at = excluded.started_at,
        heartbeat_at = excluded.heartbeat_at, running = excluded.running,
        -- It stops, or operators drain it.
        draining = excluded.draining
            OR excluded.is_worker AND nodes.drain_requested AND nodes.started_at = excluded.started_at,
        is_worker = excluded.is_worker, rate_demand = excluded.rate_demand, url = excluded.url,
        -- A request to drain concerns the process that it was made to, not the next one.
        drain_requested = nodes.drain_requested AND nodes.started_at = excluded.started_at,
        -- A process that has died uses no connections.
        has_permits = nodes.has_permits AND nodes.started_at = excluded.started_at
)
SELECT clock_timestamp(), count(*) + 1,
    count(*) FILTER (WHERE is_worker AND NOT draining), count(*) FILTER (WHERE is_worker AND draining),
    (SELECT coalesce(sum(waiting + queued + running + suspended), 0)::bigint FROM job_counts),
    array_agg(rate_demand) FILTER (WHERE is_worker)
FROM nodes
WHERE id <> $1::uuid AND heartbeat_at > now() - make_interval(secs => $8::double precision)
