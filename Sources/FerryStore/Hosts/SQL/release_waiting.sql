-- Queues jobs that wait until a host is reachable, highest priority first.
-- Locks: the jobs, skipping those that another transaction has locked, then this connection's row of
-- job_counts.
-- $1 origin, $2 maximum number of jobs. Returns their ids.
WITH changed AS (
    UPDATE jobs j SET
        state = 'queued', queued_at = now(), waiting_for = NULL, next_attempt_at = NULL,
        revision = j.revision + 1
    WHERE j.id = ANY (ARRAY(
        SELECT id FROM jobs
        WHERE state = 'waiting' AND waiting_for = 'connectivity' AND origin = $1::text
        ORDER BY priority DESC, id LIMIT $2::integer
        FOR UPDATE SKIP LOCKED))
    RETURNING j.id
), counted AS (
    INSERT INTO job_counts AS c (shard, waiting, queued)
    SELECT current_setting('ferry.shard'), -count(*), count(*) FROM changed HAVING count(*) > 0
    ON CONFLICT (shard) DO UPDATE SET
        waiting = c.waiting + excluded.waiting, queued = c.queued + excluded.queued
)
SELECT id FROM changed
