-- Queues jobs without remaining dependencies, or lets them wait for their begin dates.
-- Locks: the jobs, in the order of their ids, then this connection's row of job_counts.
-- $1 ids. Returns the ids of the released jobs, and their begin dates or null.
WITH changed AS (
    UPDATE jobs j SET
        state = CASE WHEN b.asks OR b.begin_at > now() THEN 'waiting' ELSE 'queued' END::job_state,
        waiting_for = CASE WHEN b.asks OR b.begin_at > now() THEN 'begin_date' END::waiting_for,
        next_attempt_at = CASE WHEN b.asks THEN greatest(b.begin_at, now())
            WHEN b.begin_at > now() THEN b.begin_at END,
        queued_at = now(), asks = b.asks,
        revision = j.revision + 1
    FROM (
        SELECT id, (spec::jsonb #>> '{schedule,earliest_begin_at}')::timestamptz AS begin_at,
            coalesce((spec::jsonb #>> '{schedule,confirm_before_begin}')::boolean, false) AS asks
        FROM jobs
        WHERE id = ANY ($1::uuid[]) AND waiting_for = 'dependency'
            AND NOT EXISTS (SELECT FROM job_dependencies d WHERE d.dependent = jobs.id)
        ORDER BY id FOR UPDATE
    ) b
    WHERE j.id = ANY (ARRAY[b.id])
    RETURNING j.id, j.state, j.next_attempt_at
), counted AS (
    INSERT INTO job_counts AS c (shard, waiting, queued)
    SELECT current_setting('ferry.shard'), -count(*), count(*) FROM changed WHERE state = 'queued'
    HAVING count(*) > 0
    ON CONFLICT (shard) DO UPDATE SET
        waiting = c.waiting + excluded.waiting, queued = c.queued + excluded.queued
)
SELECT id, next_attempt_at FROM changed
