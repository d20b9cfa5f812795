-- Reads a page of a tenant's jobs, newest first, finished or not; without bodies, payloads and secrets. Locks
-- nothing. $1 tenant, $2 only ids below this one, $3 session or null, $4 states of unfinished jobs or null,
-- $5 kind or null, $6 host or null, $7 created after or null, $8 metadata that must be contained or null, $9
-- how many at most, $10 the schedule that has submitted them or null, $11 states of finished jobs or null,
-- $12 origins or null, $13 only from this id on or null: where $7 lets nothing through any more. The planner
-- does not see it (SELECT): by statistics older than that, nothing lies there, and it would sort it all. Of
-- which no state is wanted, that table is not looked at (cardinality, folded when this is planned). Columns
-- as in read_jobs.sql.
(SELECT j.id, j.tenant, j.state, j.waiting_for, j.revision, j.attempt, j.failed_attempts, j.node,
    j.created_at, j.started_at, j.next_attempt_at, j.expires_at, j.cancel_requested, j.retry_of, j.spec,
    NULL::bytea AS secrets, NULL::bytea AS payload, j.error, j.origin, j.traceparent,
    NULL::timestamptz AS finished_at, NULL::text AS response, NULL::text AS result, NULL::bytea AS body,
    NULL::text AS resume_data, j.has_bytes,
    CASE WHEN j.waiting_for = 'dependency' THEN ARRAY(
        SELECT d.dependency FROM job_dependencies d WHERE d.dependent = j.id ORDER BY d.dependency)
    END AS dependencies, j.question, NULL::timestamptz AS acknowledged_at,
    CASE WHEN j.has_bytes THEN kept_attempt(j.attempts) END AS kept, j.home,
    CASE WHEN j.home IS NOT NULL THEN (
        SELECT json_build_object('name', n.name, 'drains', n.draining, 'works', n.is_worker,
            'heartbeat_at', (extract(epoch FROM n.heartbeat_at) * 1000000)::bigint)::text
        FROM nodes n WHERE n.id = j.home) END AS home_node
FROM jobs j
WHERE j.tenant = $1::text AND j.id < $2::uuid
    AND ($13::uuid IS NULL OR j.id >= (SELECT $13::uuid))
    AND ($3::text IS NULL OR j.session = $3::text)
    AND ($4::text[] IS NULL OR cardinality($4::text[]) > 0)
    AND ($4::text[] IS NULL OR j.state = ANY ($4::text[]::job_state[]))
    AND ($5::text IS NULL OR j.kind = $5::text::job_kind)
    AND ($6::text IS NULL OR substring(j.origin from '^[^/]*//(.*?)(?::[0-9]+)?$') = $6::text)
    AND ($12::text[] IS NULL OR j.origin = ANY ($12::text[]))
    AND ($7::timestamptz IS NULL OR j.created_at > $7::timestamptz)
    AND ($8::jsonb IS NULL OR (j.metadata IS NOT NULL AND j.metadata @> $8::jsonb))
    AND ($10::uuid IS NULL OR j.id IN (SELECT r.job FROM schedule_runs r WHERE r.schedule = $10::uuid))
ORDER BY j.tenant DESC, j.id DESC LIMIT $9::integer)
UNION ALL
(SELECT j.id, j.tenant, j.state, NULL, j.revision, j.attempt, j.failed_attempts, j.node, j.created_at,
    j.started_at, NULL, NULL, false, j.retry_of, j.spec, NULL,
    NULL, j.error, j.origin, j.traceparent, j.finished_at,
    j.response, j.result, NULL, j.resume_data, false, NULL, NULL, j.acknowledged_at,
    CASE WHEN j.resume_data IS NOT NULL THEN kept_attempt(array_append(j.attempts, j.last_attempt)) END,
    NULL, NULL
FROM finished_jobs j
WHERE j.tenant = $1::text AND j.id < $2::uuid
    AND ($13::uuid IS NULL OR j.id >= (SELECT $13::uuid))
    AND ($3::text IS NULL OR j.session = $3::text)
    AND ($11::text[] IS NULL OR cardinality($11::text[]) > 0)
    AND ($11::text[] IS NULL OR j.state = ANY ($11::text[]::job_state[]))
    AND ($5::text IS NULL OR j.kind = $5::text::job_kind)
    AND ($6::text IS NULL OR substring(j.origin from '^[^/]*//(.*?)(?::[0-9]+)?$') = $6::text)
    AND ($12::text[] IS NULL OR j.origin = ANY ($12::text[]))
    AND ($7::timestamptz IS NULL OR j.created_at > $7::timestamptz)
    AND ($8::jsonb IS NULL OR (j.metadata IS NOT NULL AND j.metadata @> $8::jsonb))
    AND ($10::uuid IS NULL OR j.id IN (SELECT r.job FROM schedule_runs r WHERE r.schedule = $10::uuid))
ORDER BY j.tenant DESC, j.id DESC LIMIT $9::integer)
ORDER BY id DESC LIMIT $9::integer
