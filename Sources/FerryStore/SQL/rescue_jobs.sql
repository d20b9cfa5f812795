-- Queues again what dead nodes held, or suspends it as was asked. A node is dead when it has been silent
-- for longer than its lease, while this server was there to hear it (`Silence` in the source has the other
-- half of that); and of those that hold jobs one without a row as well, which there should not
-- be (remove_node.sql, fold_counts.sql): it takes a look at everything that runs. The attempts are kept as
-- lost (AttemptRecord), as in retry_jobs.sql, and the events say so. Locks: running jobs of dead nodes that
-- nobody else has locked, then this connection's row of job_counts. $1 seconds of a lease, $2 how many jobs
-- at most, $3 the error of a lost attempt, $4 whether to look for those without a row. Returns their ids.
WITH changed AS (
    UPDATE jobs j SET
        state = CASE WHEN j.suspend_requested AND NOT j.cancel_requested THEN 'suspended'
            ELSE 'queued' END::job_state,
        suspend_requested = false, node = NULL, revision = j.revision + 1, error = $3::text,
        attempts = (array_append(j.attempts,
            '\x02'::bytea || int4send(j.attempt) || uuid_send(j.node)
            || int8send((extract(epoch FROM now()) * 1000000)::bigint)
        ))[greatest(1, cardinality(j.attempts) - 47):]
    WHERE j.id = ANY (ARRAY(
            SELECT r.id FROM jobs r
            WHERE r.state = 'running' AND r.node = ANY (ARRAY(
                SELECT n.id FROM nodes n
                WHERE greatest(n.heartbeat_at, pg_postmaster_start_time())
                    < now() - make_interval(secs => $1::double precision)))
            LIMIT $2::integer
            FOR UPDATE OF r SKIP LOCKED)
        || CASE WHEN $4::boolean THEN ARRAY(
            SELECT r.id FROM jobs r
            WHERE r.state = 'running' AND NOT EXISTS (SELECT FROM nodes n WHERE n.id = r.node)
            LIMIT $2::integer
            FOR UPDATE OF r SKIP LOCKED) END)
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
