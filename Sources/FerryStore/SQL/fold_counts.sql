-- Adds the counts of nodes that have been silent for $1 seconds to the row `folded`, and removes those nodes.
-- Locks: their rows of nodes and job_counts, then the row `folded`. A node that is alive after all starts a
-- new row.
WITH old AS (
    DELETE FROM nodes WHERE heartbeat_at < now() - make_interval(secs => $1::double precision) RETURNING id
), gone AS (
    DELETE FROM job_counts c
    WHERE c.shard <> 'folded' AND NOT EXISTS (
        SELECT FROM nodes n
        WHERE c.shard LIKE n.id::text || '/%'
            AND n.heartbeat_at >= now() - make_interval(secs => $1::double precision))
    RETURNING *
)
INSERT INTO job_counts AS c (shard, waiting, queued, running, suspended, deliveries_pending)
SELECT 'folded', sum(waiting), sum(queued), sum(running), sum(suspended), sum(deliveries_pending)
FROM gone HAVING count(*) > 0
ON CONFLICT (shard) DO UPDATE SET
    waiting = c.waiting + excluded.waiting, queued = c.queued + excluded.queued,
    running = c.running + excluded.running, suspended = c.suspended + excluded.suspended,
    deliveries_pending = c.deliveries_pending + excluded.deliveries_pending
