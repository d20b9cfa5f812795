-- Leases the best queued jobs to a node: the highest priority first, then the oldest. Says of each job once
-- that it has started. Locks: the queued rows that nobody else has locked, then this connection's row of
-- job_counts. The state is a literal and the rows are found by an array, so that no plan can leave the
-- partial index. $1 how many at most, $2 the node, $3 now, $4 whether downloads are held back.
WITH claimed AS (
    UPDATE jobs j SET
        state = 'running', attempt = j.attempt + 1, revision = j.revision + 1, node = $2::uuid,
        started_at = coalesce(j.started_at, greatest(j.created_at, $3::timestamptz))
    WHERE j.id = ANY (ARRAY(
        SELECT id FROM jobs WHERE state = 'queued' AND (kind <> 'download' OR NOT $4::boolean)
        ORDER BY priority DESC, id LIMIT $1::integer
        FOR UPDATE SKIP LOCKED))
    RETURNING j.*
), told AS (
    INSERT INTO event_inbox (tenant, session, packed)
    SELECT tenant, session, string_agg(
        event_pack(2, wanted_events, id, started_at, attempt, revision, state, NULL, NULL), ''::bytea)
    FROM claimed WHERE attempt = 1 GROUP BY tenant, session
), counted AS (
    INSERT INTO job_counts AS c (shard, queued, running)
    SELECT current_setting('ferry.shard'), -count(*), count(*) FROM claimed HAVING count(*) > 0
    ON CONFLICT (shard) DO UPDATE SET
        queued = c.queued + excluded.queued, running = c.running + excluded.running
)
SELECT j.id, j.tenant, j.state, j.waiting_for, j.revision, j.attempt, j.failed_attempts, j.node, j.created_at,
    j.started_at, j.next_attempt_at, j.expires_at, j.cancel_requested, j.retry_of, j.spec, j.secrets,
    j.payload, j.error, j.origin, j.traceparent
FROM claimed j
