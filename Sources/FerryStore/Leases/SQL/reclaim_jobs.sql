-- Gives back all jobs that a node holds, as release_jobs.sql: at its start, because a killed process could
-- not, and at its end. The attempts are kept as lost (AttemptRecord), as in retry_jobs.sql, and events are
-- written. Locks: the node's running jobs, then this connection's row of job_counts. $1 the node, $2 the
-- error of a lost attempt. Returns their ids.
WITH changed AS (
    UPDATE jobs j SET
        state = CASE WHEN j.suspend_requested AND NOT j.cancel_requested THEN 'suspended'
            ELSE 'queued' END::job_state,
        queued_at = now(), suspend_requested = false, node = NULL,
        revision = j.revision + 1, error = $2::text,
        attempts = (array_append(j.attempts,
            '\x02'::bytea || int4send(j.attempt) || uuid_send(j.node)
            || int8send((extract(epoch FROM now()) * 1000000)::bigint)
        ))[greatest(1, cardinality(j.attempts) - 47):]
    WHERE j.state = 'running' AND j.node = $1::uuid
    RETURNING j.id, j.state, j.attempt, j.revision, j.wanted_events, j.tenant, j.session, j.error
), told AS (
    INSERT INTO event_inbox (tenant, session, packed)
    SELECT tenant, session, string_agg(
        event_pack(8, wanted_events, id, now(), attempt, revision, state, NULL, convert_to(error, 'UTF8')),
        ''::bytea)
    FROM changed GROUP BY tenant, session
), counted AS (
    INSERT INTO job_counts AS c (shard, running, queued, suspended)
    SELECT current_setting('ferry.shard'), -count(*), count(*) FILTER (WHERE state = 'queued'),
        count(*) FILTER (WHERE state = 'suspended')
    FROM changed HAVING count(*) > 0
    ON CONFLICT (shard) DO UPDATE SET
        running = c.running + excluded.running, queued = c.queued + excluded.queued,
        suspended = c.suspended + excluded.suspended
)
SELECT id FROM changed
