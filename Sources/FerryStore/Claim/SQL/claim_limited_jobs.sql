-- Leases the most urgent queued jobs of narrow claim queues to a node, as many of each as read_permits.sql
-- allows; else as claim_jobs.sql. Takes tokens of the rates of their scopes; lock_claim_queues.sql has locked
-- the widest of these.
-- Locks: queued rows that no other transaction has locked, rows of host_limits, then this connection's rows
-- of job_counts and job_group_counts.
-- $1 the node, $2 now, $3 whether downloads are left out, $4 whether origins are unreachable: jobs of those
-- are left to lock_unreachable_jobs.sql; $5 whether some paths have limits of their own: in claim queues
-- without a path their jobs are skipped, as many in a claim as divert_jobs.sql looks at, which moves them.
WITH claimed AS (
    UPDATE jobs j SET
        state = 'running', attempt = j.attempt + 1, revision = j.revision + 1, node = $1::uuid,
        started_at = coalesce(j.started_at, greatest(j.created_at, $2::timestamptz))
    WHERE j.id = ANY (ARRAY(
        SELECT q.id
        FROM unnest(
            string_to_array(split_part(current_setting('ferry.permits'), ';', 1), ',')::bigint[],
            string_to_array(split_part(current_setting('ferry.permits'), ';', 2), ',')::integer[]
        ) AS a(queue, count) CROSS JOIN LATERAL (
            SELECT w.id, w.origin, w.may_wait FROM (
                SELECT id, origin, tenant, scope_path,
                    awaits_host AND NOT was_lost AND NOT cancel_requested AS may_wait
                FROM jobs
                WHERE state = 'queued' AND node IS NULL AND queue = a.queue
                    AND (kind <> 'download' OR NOT $3::boolean)
                ORDER BY urgency, id LIMIT a.count + CASE WHEN $5::boolean THEN 200 ELSE 0 END
                FOR UPDATE SKIP LOCKED) w
            WHERE NOT $5::boolean OR NOT EXISTS (
                SELECT FROM host_limits s
                WHERE s.origin = w.origin AND s.tenant = w.tenant AND s.path = w.scope_path AND s.path <> ''
                    AND (SELECT l.path FROM claim_queues l WHERE l.id = ANY (ARRAY[a.queue])) = '')
            LIMIT a.count) q
        WHERE NOT $4::boolean OR NOT coalesce((
            SELECT h.unreachable IS NOT NULL AND q.may_wait
            FROM hosts h WHERE h.origin = q.origin), false)))
    RETURNING j.*
), paid AS (
    UPDATE host_limits s SET
        request_credit = request_credit(s.request_rate, s.request_credit, s.request_credit_at) - c.count,
        request_credit_at = now()
    FROM (
        SELECT l.origin, l.tenant, l.path, sum(j.count) AS count
        FROM (SELECT origin, tenant, scope_path, count(*) FROM claimed GROUP BY origin, tenant, scope_path) j
        JOIN host_limits l ON l.origin = j.origin AND l.tenant IN ('', j.tenant)
            AND l.path IN ('', j.scope_path)
        WHERE l.request_rate IS NOT NULL
        GROUP BY l.origin, l.tenant, l.path) c
    WHERE s.origin = c.origin AND s.tenant = c.tenant AND s.path = c.path
), told AS (
    INSERT INTO event_inbox (tenant, session, packed)
    SELECT tenant, session, string_agg(
        event_pack(
            2, wanted_events, id, started_at, attempt, revision, state, NULL,
            event_detail(node, NULL, NULL, error, NULL, NULL)), ''::bytea)
    FROM claimed WHERE attempts IS NULL AND started_at = greatest(created_at, $2::timestamptz)
    GROUP BY tenant, session
), counted AS (
    INSERT INTO job_counts AS c (shard, queued, running)
    SELECT current_setting('ferry.shard'), -count(*), count(*) FROM claimed
    HAVING count(*) > 0 AND CASE WHEN count(job_group) = 0 THEN true ELSE count_job_groups(
        array_agg(job_group) FILTER (WHERE job_group IS NOT NULL),
        array_agg('queued'::job_state) FILTER (WHERE job_group IS NOT NULL),
        array_agg(state) FILTER (WHERE job_group IS NOT NULL)) END
    ON CONFLICT (shard) DO UPDATE SET
        queued = c.queued + excluded.queued, running = c.running + excluded.running
)
SELECT j.id, j.tenant, j.state, j.waiting_for, j.revision, j.attempt, j.failed_attempts, j.node, j.created_at,
    j.started_at, j.next_attempt_at, j.expires_at, j.cancel_requested, j.retry_of, j.spec, j.secrets,
    j.payload, j.error, j.origin, j.traceparent, j.queue, j.urgency, j.has_bytes, j.keeps_bytes, j.home,
    j.next_request, (SELECT epoch FROM session_epoch WHERE is_only) AS session_epoch
FROM claimed j
