-- Suspends a job that no node runs.
-- Locks: the job, then this connection's row of job_counts.
-- $1 id, $2 expected revision. Returns the id; no row if the job has changed meanwhile.
WITH found AS (
    SELECT id, state FROM jobs
    WHERE id = $1::uuid AND revision = $2::integer AND state IN ('waiting', 'queued')
    FOR UPDATE
), changed AS (
    UPDATE jobs j SET
        state = 'suspended', waiting_for = NULL, next_attempt_at = NULL, question = NULL,
        asks = j.asks AND j.attempt = 0, revision = j.revision + 1
    FROM found WHERE j.id = found.id
    RETURNING j.id, found.state AS state_before
), counted AS (
    INSERT INTO job_counts AS c (shard, waiting, queued, suspended)
    SELECT current_setting('ferry.shard'), -count(*) FILTER (WHERE state_before = 'waiting'),
        -count(*) FILTER (WHERE state_before = 'queued'), count(*)
    FROM changed HAVING count(*) > 0
    ON CONFLICT (shard) DO UPDATE SET
        waiting = c.waiting + excluded.waiting, queued = c.queued + excluded.queued,
        suspended = c.suspended + excluded.suspended
)
SELECT id FROM changed
