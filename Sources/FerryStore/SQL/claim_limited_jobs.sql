-- Leases the best queued jobs of narrow lots to a node, as many of each as read_permits.sql allows; else as
-- claim_jobs.sql. Hosts with a rate are paid in their rows, which lock_lots.sql has locked. Locks: the queued
-- rows that nobody else has locked, then this connection's row of job_counts. $1 the node, $2 now, $3 whether
-- downloads are held back, $4 whether origins are not reached: jobs of those are left to await_hosts.sql.
WITH claimed AS (
    UPDATE jobs j SET
        state = 'running', attempt = j.attempt + 1, revision = j.revision + 1, node = $1::uuid,
        started_at = coalesce(j.started_at, greatest(j.created_at, $2::timestamptz))
    WHERE j.id = ANY (ARRAY(
        SELECT q.id
        FROM unnest(
            string_to_array(split_part(current_setting('ferry.permits'), ';', 1), ',')::bigint[],
            string_to_array(split_part(current_setting('ferry.permits'), ';', 2), ',')::integer[]
        ) AS a(lot, count) CROSS JOIN LATERAL (
            SELECT id, origin FROM jobs
            WHERE state = 'queued' AND lot = a.lot AND (kind <> 'download' OR NOT $3::boolean)
            ORDER BY urgency, id LIMIT a.count
            FOR UPDATE SKIP LOCKED) q
        WHERE NOT $4::boolean OR NOT coalesce((
            SELECT h.unreachable IS NOT NULL AND (
                SELECT NOT w.cancel_requested AND job_awaits_host(w.spec, w.error)
                FROM jobs w WHERE w.id = ANY (ARRAY[q.id]))
            FROM hosts h WHERE h.origin = q.origin), false)))
    RETURNING j.*
), paid AS (
    UPDATE hosts h SET
        request_credit = request_credit(h.request_rate, h.request_credit, h.request_credit_at) - c.count,
        request_credit_at = now()
    FROM (SELECT origin, count(*) FROM claimed GROUP BY origin) c
    WHERE h.origin = ANY (ARRAY[c.origin]) AND h.request_rate IS NOT NULL
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
    j.payload, j.error, j.origin, j.traceparent, j.lot, j.urgency, j.has_bytes, j.keeps_bytes, j.home
FROM claimed j
