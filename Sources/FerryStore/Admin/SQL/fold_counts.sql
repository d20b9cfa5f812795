-- Adds rows of job_counts, and of job_group_counts, that are no longer written to rows `folded`: those of
-- nodes that have been silent for $1 seconds, and those that a connection has left for a new row
-- (set_shard.sql) a minute ago.
-- Also moves silent nodes without running jobs to the former nodes; lock_jobs_of_dead_nodes.sql finds dead
-- nodes by their rows. Locks: the removed rows, then the rows `folded`. A node or
-- connection that comes back starts a new row.
WITH old AS (
    DELETE FROM nodes n
    WHERE n.heartbeat_at < now() - make_interval(secs => $1::double precision)
        AND NOT EXISTS (SELECT FROM jobs r WHERE r.node = n.id)
    RETURNING id, heartbeat_at
), former AS (
    INSERT INTO former_nodes (id, heartbeat_at) SELECT id, heartbeat_at FROM old
    ON CONFLICT (id) DO UPDATE SET heartbeat_at = excluded.heartbeat_at
), gone AS (
    DELETE FROM job_counts c
    WHERE c.shard <> 'folded' AND is_former_shard(c.shard, $1::double precision)
    RETURNING *
), gone_of_groups AS (
    DELETE FROM job_group_counts c
    WHERE c.shard <> 'folded' AND is_former_shard(c.shard, $1::double precision)
    RETURNING *
), of_groups AS (
    INSERT INTO job_group_counts AS c (
        job_group, shard, waiting, queued, running, suspended, succeeded, failed, cancelled, open_failures,
        bytes_received, bytes_sent)
    SELECT job_group, 'folded', sum(waiting), sum(queued), sum(running), sum(suspended), sum(succeeded),
        sum(failed), sum(cancelled), sum(open_failures), sum(bytes_received), sum(bytes_sent)
    FROM gone_of_groups c WHERE EXISTS (SELECT FROM job_groups g WHERE g.id = c.job_group)
    GROUP BY job_group
    ON CONFLICT (job_group, shard) DO UPDATE SET
        waiting = c.waiting + excluded.waiting, queued = c.queued + excluded.queued,
        running = c.running + excluded.running, suspended = c.suspended + excluded.suspended,
        succeeded = c.succeeded + excluded.succeeded, failed = c.failed + excluded.failed,
        cancelled = c.cancelled + excluded.cancelled,
        open_failures = c.open_failures + excluded.open_failures,
        bytes_received = c.bytes_received + excluded.bytes_received,
        bytes_sent = c.bytes_sent + excluded.bytes_sent
)
INSERT INTO job_counts AS c (shard, waiting, queued, running, suspended, deliveries_pending)
SELECT 'folded', sum(waiting), sum(queued), sum(running), sum(suspended), sum(deliveries_pending)
FROM gone HAVING count(*) > 0
ON CONFLICT (shard) DO UPDATE SET
    waiting = c.waiting + excluded.waiting, queued = c.queued + excluded.queued,
    running = c.running + excluded.running, suspended = c.suspended + excluded.suspended,
    deliveries_pending = c.deliveries_pending + excluded.deliveries_pending
