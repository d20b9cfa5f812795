-- Leases the most urgent queued jobs of wide claim queues to a node. Writes an event for the first start of a
-- job.
-- Locks: queued rows that no other transaction has locked, then this connection's rows of job_counts and
-- job_group_counts. The
-- state is a literal and the rows are found by an array, so that no plan can leave the partial index.
-- $1 claim queues, $2 how many jobs of each at most, $3 the node, $4 now, $5 whether downloads are left out,
-- $6 whether scopes are limited or origins unreachable: jobs of those are left to divert_jobs.sql and
-- lock_unreachable_jobs.sql.
-- $7 whether some jobs will find no free slot. Then jobs whose requests must not be sent twice
-- (is_repeatable) are passed over, and one of them is returned without a node.
-- $8 the urgency at which each claim queue begins: every job before is leased, but its dead rows would still
-- be read while any transaction keeps an old snapshot.
-- $10 whether jobs of limited scopes and of unreachable origins are skipped in the claim queue, until
-- divert_jobs.sql and lock_unreachable_jobs.sql have moved them; one claim reads no more than $12 rows
-- (read_claim_bounds.sql), and those as urgent as the last of them.
-- $11 the only node that may lease from the claim queue, or null: any, or this one. Nothing is leased unless
-- that node has sent no heartbeat for $9 seconds.
-- Columns as everywhere, then claim queue, urgency, whether bytes are left, whether they stay when the job is
-- cancelled, the only node that can run it, the request with which an attempt begins (NextRequest) or null,
-- and the epoch of the sessions, whose credentials the attempt uses.
WITH met AS MATERIALIZED (
    SELECT q.id, $7::boolean AND q.is_repeatable IS NOT TRUE AS is_passed_over
    FROM (
        SELECT *, CASE WHEN skips THEN (
            SELECT w.urgency FROM jobs w
            WHERE w.state = 'queued' AND w.node IS NULL AND w.queue = a.queue AND w.urgency >= a.since
            ORDER BY w.urgency, w.id OFFSET $12::integer LIMIT 1) END AS until
        FROM unnest($1::bigint[], $2::integer[], $8::timestamptz[], $10::boolean[], $11::uuid[])
            AS a(queue, count, since, skips, home)
        WHERE home IS NULL OR NOT EXISTS (
            SELECT FROM nodes n WHERE n.id = a.home AND n.is_worker
                AND n.heartbeat_at > now() - make_interval(secs => $9::double precision))
        OFFSET 0) a
    CROSS JOIN LATERAL (
        SELECT id, origin, tenant, scope_path, is_repeatable,
            awaits_host AND NOT was_lost AND NOT cancel_requested AS may_wait
        FROM jobs
        WHERE state = 'queued' AND node IS NULL AND queue = a.queue AND urgency >= a.since
            AND urgency <= coalesce(a.until, 'infinity') AND (kind <> 'download' OR NOT $5::boolean)
            AND (NOT a.skips OR NOT coalesce((
                SELECT h.unreachable IS NOT NULL AND jobs.awaits_host AND NOT jobs.was_lost
                        AND NOT jobs.cancel_requested
                    OR EXISTS (
                        SELECT FROM host_limits l
                        WHERE l.origin = h.origin AND l.tenant IN ('', jobs.tenant)
                            AND l.path IN ('', jobs.scope_path))
                FROM hosts h WHERE h.origin = jobs.origin), false))
        ORDER BY urgency, id LIMIT a.count
        FOR UPDATE SKIP LOCKED) q
    WHERE NOT $6::boolean OR NOT coalesce((
        SELECT EXISTS (
                SELECT FROM host_limits l
                WHERE l.origin = h.origin AND l.tenant IN ('', q.tenant) AND l.path IN ('', q.scope_path))
            OR h.unreachable IS NOT NULL AND q.may_wait
        FROM hosts h WHERE h.origin = q.origin), false)
), claimed AS (
    UPDATE jobs j SET
        state = 'running', attempt = j.attempt + 1, revision = j.revision + 1, node = $3::uuid,
        started_at = coalesce(j.started_at, greatest(j.created_at, $4::timestamptz))
    WHERE j.id = ANY (ARRAY(SELECT id FROM met WHERE NOT is_passed_over))
    RETURNING j.*
), told AS (
    INSERT INTO event_inbox (tenant, session, packed)
    SELECT tenant, session, string_agg(
        event_pack(
            2, wanted_events, id, started_at, attempt, revision, state, NULL,
            event_detail(node, NULL, NULL, error, NULL, NULL)), ''::bytea)
    FROM claimed WHERE attempts IS NULL AND started_at = greatest(created_at, $4::timestamptz)
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
UNION ALL
SELECT j.id, j.tenant, j.state, j.waiting_for, j.revision, j.attempt, j.failed_attempts, j.node, j.created_at,
    j.started_at, j.next_attempt_at, j.expires_at, j.cancel_requested, j.retry_of, j.spec, j.secrets,
    j.payload, j.error, j.origin, j.traceparent, j.queue, j.urgency, j.has_bytes, j.keeps_bytes, j.home,
    j.next_request, (SELECT epoch FROM session_epoch WHERE is_only) AS session_epoch
FROM jobs j WHERE j.id = ANY (ARRAY(SELECT id FROM met WHERE is_passed_over LIMIT 1))
