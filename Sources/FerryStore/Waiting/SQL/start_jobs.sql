-- Queues discretionary jobs that start now.
-- Locks: the jobs, then this connection's row of job_counts.
-- $1 ids. Returns the ids of the jobs that were queued.
WITH changed AS (
    UPDATE jobs j SET
        state = 'queued', queued_at = now(), waiting_for = NULL, next_attempt_at = NULL,
        revision = j.revision + 1
    WHERE j.id = ANY ($1::uuid[]) AND j.state = 'waiting' AND j.waiting_for = 'discretionary'
    RETURNING j.id
), counted AS (
    INSERT INTO job_counts AS c (shard, waiting, queued)
    SELECT current_setting('ferry.shard'), -count(*), count(*) FROM changed HAVING count(*) > 0
    ON CONFLICT (shard) DO UPDATE SET
        waiting = c.waiting + excluded.waiting, queued = c.queued + excluded.queued
)
SELECT id FROM changed
