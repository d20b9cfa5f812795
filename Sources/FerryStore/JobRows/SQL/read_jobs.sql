-- Reads jobs by id, finished or not. Locks nothing.
-- $1 ids, $2 whether to read secrets, payloads and bodies; otherwise they are null and nothing is fetched for
-- them.
-- Columns 0 to 19 as in claim_jobs.sql; the last ones the name of the job's group, null also if that was
-- deleted, and of a job that has bytes the request with which its next attempt begins (NextRequest, sealed);
-- 33 the number of connections that the session of a queued job has to its host, 0 in a wide claim queue: no
-- limit has held back such a job.
-- Each job is looked up alone, a finished one in the partition of its id: the planner never turns a subquery
-- with LIMIT into a join that reads more.
SELECT j.id, j.tenant, j.state, j.waiting_for, j.revision, j.attempt, j.failed_attempts, j.node, j.created_at,
    j.started_at, j.next_attempt_at, j.expires_at, j.cancel_requested, j.retry_of, j.spec,
    CASE WHEN $2::boolean THEN j.secrets END AS secrets, CASE WHEN $2::boolean THEN j.payload END AS payload,
    j.error, j.origin, j.traceparent, NULL::timestamptz AS finished_at, NULL::text AS response,
    NULL::text AS result, NULL::bytea AS body, NULL::text AS resume_data, j.has_bytes,
    CASE WHEN j.waiting_for = 'dependency' THEN ARRAY(
        SELECT CASE WHEN d.group_round IS NULL THEN d.dependency::text
            WHEN d.group_round = -1 THEN 'upload ' || d.dependency ELSE 'group ' || coalesce(
            (SELECT g.name FROM job_groups g WHERE g.id = d.dependency), '') END
        FROM job_dependencies d WHERE d.dependent = j.id ORDER BY d.dependency)
    END AS dependencies, j.question, NULL::timestamptz AS acknowledged_at,
    CASE WHEN j.has_bytes THEN kept_attempt(j.attempts) END AS kept, j.home,
    CASE WHEN j.home IS NOT NULL THEN (
        SELECT json_build_object('name', n.name, 'drains', n.draining, 'works', n.is_worker,
            'heartbeat_at', (extract(epoch FROM n.heartbeat_at) * 1000000)::bigint)::text
        FROM nodes n WHERE n.id = j.home) END AS home_node, j.spec_revision,
    CASE WHEN j.state = 'queued' THEN CASE WHEN j.queue < 0 THEN coalesce((
        SELECT n.session_count FROM narrow_claim_queues n WHERE n.queue = ANY (ARRAY[j.queue]))::integer, 0)
        ELSE 0 END END AS session_count, NULL::text AS endpoint_acknowledgement, NULL::uuid AS retried_by,
    CASE WHEN j.job_group IS NOT NULL THEN (
        SELECT g.name FROM job_groups g WHERE g.id = j.job_group) END AS job_group,
    CASE WHEN j.has_bytes THEN j.next_request END AS next_request
FROM unnest($1::uuid[]) AS u(id) CROSS JOIN LATERAL (SELECT * FROM jobs WHERE id = u.id LIMIT 1) j
UNION ALL
SELECT j.id, j.tenant, j.state, NULL, j.revision, j.attempt, j.failed_attempts, j.node, j.created_at,
    j.started_at, NULL, NULL, false, j.retry_of, j.spec,
    CASE WHEN $2::boolean THEN j.secrets END, CASE WHEN $2::boolean THEN j.payload END,
    j.error, j.origin, j.traceparent, j.finished_at, j.response, j.result,
    CASE WHEN $2::boolean THEN j.body END, j.resume_data, false, NULL, NULL, j.acknowledged_at,
    CASE WHEN j.resume_data IS NOT NULL THEN kept_attempt(array_append(j.attempts, j.last_attempt)) END,
    NULL, NULL, j.spec_revision, NULL, j.endpoint_acknowledgement, j.retried_by,
    CASE WHEN j.job_group IS NOT NULL THEN (
        SELECT g.name FROM job_groups g WHERE g.id = j.job_group) END, NULL
FROM unnest($1::uuid[]) AS u(id) CROSS JOIN LATERAL (
    SELECT * FROM finished_jobs WHERE id = u.id LIMIT 1
) j
