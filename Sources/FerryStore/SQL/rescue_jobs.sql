-- Queues again what dead nodes held. A node is dead when it has been silent for longer than its lease.
-- The attempts are kept as lost (AttemptRecord), as in retry_jobs.sql.
-- Locks: running jobs of dead nodes that nobody else has locked, then this connection's row of job_counts.
-- $1 seconds of a lease, $2 how many jobs at most. Returns their ids.
WITH changed AS (
    UPDATE jobs j SET state = 'queued', node = NULL, revision = j.revision + 1,
        attempts = (array_append(j.attempts,
            '\x02'::bytea || int4send(j.attempt) || uuid_send(j.node)
            || int8send((extract(epoch FROM now()) * 1000000)::bigint)
        ))[greatest(1, cardinality(j.attempts) - 47):]
    WHERE j.id = ANY (ARRAY(
        SELECT r.id FROM jobs r
        WHERE r.state = 'running' AND NOT EXISTS (
            SELECT FROM nodes n
            WHERE n.id = r.node AND n.heartbeat_at >= now() - make_interval(secs => $1::double precision))
        LIMIT $2::integer
        FOR UPDATE OF r SKIP LOCKED))
    RETURNING j.id
), counted AS (
    INSERT INTO job_counts AS c (shard, running, queued)
    SELECT current_setting('ferry.shard'), -count(*), count(*) FROM changed HAVING count(*) > 0
    ON CONFLICT (shard) DO UPDATE SET
        running = c.running + excluded.running, queued = c.queued + excluded.queued
)
SELECT id FROM changed
