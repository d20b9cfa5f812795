-- Queues the jobs of dead nodes again, or suspends them if that was requested. The caller has found out which
-- nodes are dead (FailureDetector in the source); a node with a later heartbeat is not. A node that holds
-- jobs and has no row is dead as well. That should not happen (remove_node.sql, fold_counts.sql), and to find
-- it takes a look at all running jobs. The attempts are kept as lost (AttemptRecord), as in retry_jobs.sql,
-- and events are written.
-- Locks: running jobs of dead nodes that no other transaction has locked, then this connection's row of
-- job_counts.
-- $1 dead nodes, $2 their last heartbeats, $3 how many jobs at most, $4 the error of a lost attempt, $5
-- whether to look for nodes without a row. Returns their ids.
WITH changed AS (
    UPDATE jobs j SET
        state = CASE WHEN j.suspend_requested AND NOT j.cancel_requested THEN 'suspended'
            ELSE 'queued' END::job_state,
        queued_at = now(), suspend_requested = false, node = NULL,
        revision = j.revision + 1, error = $4::text,
        attempts = (array_append(j.attempts,
            '\x02'::bytea || int4send(j.attempt) || uuid_send(j.node)
            || int8send((extract(epoch FROM now()) * 1000000)::bigint)
        ))[greatest(1, cardinality(j.attempts) - 47):]
    WHERE j.id = ANY (ARRAY(
            SELECT r.id FROM jobs r
            WHERE r.state = 'running' AND r.node = ANY (ARRAY(
                SELECT n.id
                FROM nodes n JOIN unnest($1::uuid[], $2::timestamptz[]) AS d(id, heartbeat_at)
                    ON d.id = n.id AND d.heartbeat_at = n.heartbeat_at))
            LIMIT $3::integer
            FOR UPDATE OF r SKIP LOCKED)
        || CASE WHEN $5::boolean THEN ARRAY(
            SELECT r.id FROM jobs r
            WHERE r.state = 'running' AND NOT EXISTS (SELECT FROM nodes n WHERE n.id = r.node)
            LIMIT $3::integer
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
