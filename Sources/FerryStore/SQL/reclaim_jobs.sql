-- Gives back everything that a node holds: at its start (a killed process never said goodbye) and at its end.
-- The attempts are kept as lost (AttemptRecord), as in retry_jobs.sql.
-- Locks: the node's running jobs, then this connection's row of job_counts. $1 the node. Returns their ids.
WITH changed AS (
    UPDATE jobs j SET state = 'queued', node = NULL, revision = j.revision + 1,
        attempts = (array_append(j.attempts,
            '\x02'::bytea || int4send(j.attempt) || uuid_send(j.node)
            || int8send((extract(epoch FROM now()) * 1000000)::bigint)
        ))[greatest(1, cardinality(j.attempts) - 47):]
    WHERE j.state = 'running' AND j.node = $1::uuid
    RETURNING j.id
), counted AS (
    INSERT INTO job_counts AS c (shard, running, queued)
    SELECT current_setting('ferry.shard'), -count(*), count(*) FROM changed HAVING count(*) > 0
    ON CONFLICT (shard) DO UPDATE SET
        running = c.running + excluded.running, queued = c.queued + excluded.queued
)
SELECT id FROM changed
