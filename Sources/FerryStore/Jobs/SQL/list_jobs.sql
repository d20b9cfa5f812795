-- Reads a page of a tenant's jobs, newest first, finished or not, without bodies, payloads and secrets. Locks
-- nothing.
-- $1 tenant, $2 upper bound of ids (exclusive), $3 session or null, $4 states of unfinished jobs or null, $5
-- kind or null, $6 host or null, $7 created after or null, $8 metadata to contain or null, $9 maximum number
-- of jobs, $10 schedule that submitted them or null, $11 states of finished jobs or null, $12 origins or
-- null, $13 lower bound of ids (inclusive) or null, $14 maximum number of candidates, $15 whether only
-- unacknowledged jobs, $16 whether the large columns (spec, error, response, result, resume_data,
-- endpoint_acknowledgement) are null, for a count or a bulk operation, $17 job that they retry or null, $18
-- whether they were retried or null, $19 codes of errors or null, $20 ended after or null, $21 ended before
-- or null (if $18 is true or $20 or $21 is not null, $4 must be empty), $22 dimensions of a summary
-- (SummaryDimension) or null, $23 name of the group or null.
-- Candidates are ids, read in order from one index: of the schedule, the session, the unacknowledged jobs,
-- the retries of a job, the group, or the tenant. Each candidate is then looked up by id, and the filters
-- apply to its row. The code is the first member of an error (ErrorRecord).
-- The leading column of the index is compared by ANY or as a row. After a plain comparison the planner may
-- use the primary key, which has the same order by id, and read rows of all tenants.
-- Retries of a job are in the order of jobs_retry without a comparison of the tenant, which would allow the
-- index of all its jobs. Tenant and id of jobs of a group are compared as a row, so that a page begins where
-- the one before has ended.
-- In a session candidates below $13 are read but not looked up. A branch whose condition names only
-- parameters is not executed if the condition is false.
-- Columns as in read_jobs.sql (JobColumn), then the number of the candidate, then a text that jobs have in
-- common that have the same values of the dimensions $22, or null. Everything that decides about a waiting
-- reason is in it. The last candidate ($14) is always returned, since its id is where the next page begins;
-- its other columns are null if the filters exclude it.
SELECT c.id, w.tenant, w.state, w.waiting_for, w.revision, w.attempt, w.failed_attempts, w.node, w.created_at,
    w.started_at, w.next_attempt_at, w.expires_at, w.cancel_requested, w.retry_of,
    CASE WHEN NOT $16::boolean THEN w.spec END AS spec, NULL::bytea AS secrets, NULL::bytea AS payload,
    CASE WHEN NOT $16::boolean THEN w.error END AS error, w.origin, w.traceparent, w.finished_at,
    CASE WHEN NOT $16::boolean THEN w.response END AS response,
    CASE WHEN NOT $16::boolean THEN w.result END AS result, NULL::bytea AS body,
    CASE WHEN NOT $16::boolean THEN w.resume_data END AS resume_data, w.has_bytes, w.dependencies, w.question,
    w.acknowledged_at, w.kept, w.home, w.home_node, w.spec_revision,
    w.session_count,
    CASE WHEN NOT $16::boolean THEN w.endpoint_acknowledgement END AS endpoint_acknowledgement,
    w.retried_by, w.job_group, NULL::bytea AS next_request, c.number, w.likeness
FROM (
    SELECT u.of, u.id, u.is_finished, row_number() OVER (ORDER BY u.of DESC, u.id DESC) AS number
    FROM (
        (SELECT j.tenant AS of, j.id, false AS is_finished FROM jobs j
        WHERE ($3::text IS NULL OR $3::text = 'default') AND $10::uuid IS NULL AND $17::uuid IS NULL
            AND NOT $15::boolean AND $23::text IS NULL
            AND ($4::text[] IS NULL OR cardinality($4::text[]) > 0)
            AND j.tenant = ANY (ARRAY[$1::text]) AND j.id < $2::uuid
            AND j.id >= coalesce($13::uuid, '00000000-0000-0000-0000-000000000000')
        ORDER BY j.tenant DESC, j.id DESC LIMIT $14::integer)
        UNION ALL
        (SELECT j.tenant, j.id, true FROM finished_jobs j
        WHERE ($3::text IS NULL OR $3::text = 'default') AND $10::uuid IS NULL AND $17::uuid IS NULL
            AND NOT $15::boolean AND $23::text IS NULL
            AND ($11::text[] IS NULL OR cardinality($11::text[]) > 0)
            AND j.tenant = ANY (ARRAY[$1::text]) AND j.id < $2::uuid
            AND j.id >= coalesce($13::uuid, '00000000-0000-0000-0000-000000000000')
        ORDER BY j.tenant DESC, j.id DESC LIMIT $14::integer)
        UNION ALL
        (SELECT j.session, j.id, false FROM jobs j
        WHERE $3::text <> 'default' AND $10::uuid IS NULL AND $17::uuid IS NULL AND NOT $15::boolean
            AND $23::text IS NULL
            AND ($4::text[] IS NULL OR cardinality($4::text[]) > 0)
            AND j.tenant = $1::text AND (j.session, j.id) < ($3::text, $2::uuid) AND j.session <> 'default'
            AND (j.session, j.id) >= ($3::text, '00000000-0000-0000-0000-000000000000')
        ORDER BY j.session DESC, j.id DESC LIMIT $14::integer)
        UNION ALL
        (SELECT j.session, j.id, true FROM finished_jobs j
        WHERE $3::text <> 'default' AND $10::uuid IS NULL AND $17::uuid IS NULL AND NOT $15::boolean
            AND $23::text IS NULL
            AND ($11::text[] IS NULL OR cardinality($11::text[]) > 0)
            AND j.tenant = $1::text AND (j.session, j.id) < ($3::text, $2::uuid) AND j.session <> 'default'
            AND (j.session, j.id) >= ($3::text, '00000000-0000-0000-0000-000000000000')
        ORDER BY j.session DESC, j.id DESC LIMIT $14::integer)
        UNION ALL
        (SELECT '', r.job, NULL FROM schedule_runs r
        WHERE $10::uuid IS NOT NULL AND NOT $15::boolean
            AND r.schedule = ANY (ARRAY[$10::uuid]) AND r.job < $2::uuid
            AND r.job >= coalesce($13::uuid, '00000000-0000-0000-0000-000000000000')
        ORDER BY r.schedule DESC, r.job DESC LIMIT $14::integer)
        UNION ALL
        (SELECT a.tenant, a.job, true FROM unacknowledged_jobs a
        WHERE $15::boolean AND a.tenant = ANY (ARRAY[$1::text]) AND a.job < $2::uuid
            AND a.job >= coalesce($13::uuid, '00000000-0000-0000-0000-000000000000')
        ORDER BY a.tenant DESC, a.job DESC LIMIT $14::integer)
        UNION ALL
        (SELECT j.tenant, j.id, false FROM jobs j
        WHERE $17::uuid IS NOT NULL AND $10::uuid IS NULL AND NOT $15::boolean
            AND ($4::text[] IS NULL OR cardinality($4::text[]) > 0)
            AND j.retry_of = $17::uuid AND j.id < $2::uuid
            AND j.id >= coalesce($13::uuid, '00000000-0000-0000-0000-000000000000')
        ORDER BY j.tenant DESC, j.id DESC LIMIT $14::integer)
        UNION ALL
        (SELECT j.tenant, j.id, true FROM finished_jobs j
        WHERE $17::uuid IS NOT NULL AND $10::uuid IS NULL AND NOT $15::boolean
            AND ($11::text[] IS NULL OR cardinality($11::text[]) > 0)
            AND j.retry_of = $17::uuid AND j.id < $2::uuid
            AND j.id >= coalesce($13::uuid, '00000000-0000-0000-0000-000000000000')
        ORDER BY j.tenant DESC, j.id DESC LIMIT $14::integer)
        UNION ALL
        (SELECT j.tenant, j.id, false FROM jobs j
        WHERE $23::text IS NOT NULL AND $10::uuid IS NULL AND $17::uuid IS NULL AND NOT $15::boolean
            AND ($4::text[] IS NULL OR cardinality($4::text[]) > 0)
            AND j.job_group = (SELECT g.id FROM job_groups g WHERE g.tenant = $1::text AND g.name = $23::text)
            AND (j.tenant, j.id) < ($1::text, $2::uuid)
            AND (j.tenant, j.id) >= ($1::text, coalesce($13::uuid, '00000000-0000-0000-0000-000000000000'))
        ORDER BY j.tenant DESC, j.id DESC LIMIT $14::integer)
        UNION ALL
        (SELECT j.tenant, j.id, true FROM finished_jobs j
        WHERE $23::text IS NOT NULL AND $10::uuid IS NULL AND $17::uuid IS NULL AND NOT $15::boolean
            AND ($11::text[] IS NULL OR cardinality($11::text[]) > 0)
            AND j.job_group = (SELECT g.id FROM job_groups g WHERE g.tenant = $1::text AND g.name = $23::text)
            AND (j.tenant, j.id) < ($1::text, $2::uuid)
            AND (j.tenant, j.id) >= ($1::text, coalesce($13::uuid, '00000000-0000-0000-0000-000000000000'))
        ORDER BY j.tenant DESC, j.id DESC LIMIT $14::integer)
        ORDER BY of DESC, id DESC LIMIT $14::integer
    ) u
) c LEFT JOIN LATERAL (
    SELECT j.tenant, j.state, j.waiting_for, j.revision, j.attempt, j.failed_attempts, j.node, j.created_at,
        j.started_at, j.next_attempt_at, j.expires_at, j.cancel_requested, j.retry_of, j.spec, j.error,
        j.origin, j.traceparent, NULL::timestamptz AS finished_at, NULL::text AS response,
        NULL::text AS result, NULL::text AS resume_data, j.has_bytes,
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
        CASE WHEN j.state = 'queued' AND NOT $16::boolean THEN CASE WHEN j.queue < 0 THEN coalesce((
            SELECT n.session_count FROM narrow_claim_queues n
            WHERE n.queue = ANY (ARRAY[j.queue]))::integer, 0)
            ELSE 0 END END AS session_count, NULL::text AS endpoint_acknowledgement,
        NULL::uuid AS retried_by,
        CASE WHEN j.job_group IS NOT NULL THEN (
            SELECT g.name FROM job_groups g WHERE g.id = j.job_group) END AS job_group,
        CASE WHEN $22::text[] IS NOT NULL THEN ROW(
            CASE WHEN 'state' = ANY ($22::text[]) THEN j.state END,
            CASE WHEN 'host' = ANY ($22::text[]) THEN j.origin END,
            CASE WHEN 'error' = ANY ($22::text[]) THEN substring(j.error from '^[{]"code":"([^"]*)"') END,
            CASE WHEN 'group' = ANY ($22::text[]) THEN j.job_group END,
            CASE WHEN 'waiting_reason' = ANY ($22::text[]) THEN ROW(
                j.state, j.waiting_for, j.kind, j.session, j.origin, j.scope_path, least(j.queue, 0),
                j.awaits_host, j.home, substring(j.error from '^[{]"code":"([^"]*)"'),
                substring(j.error from '"held_by":"([^"]*)".$')) END
        )::text END AS likeness
    FROM jobs j
    WHERE c.is_finished IS NOT TRUE AND ($13::uuid IS NULL OR c.id >= $13::uuid)
        AND j.id = c.id AND j.tenant = $1::text
        AND ($3::text IS NULL OR j.session = $3::text)
        AND ($4::text[] IS NULL OR j.state = ANY ($4::text[]::job_state[]))
        AND ($5::text IS NULL OR j.kind = $5::text::job_kind)
        AND ($6::text IS NULL OR substring(j.origin from '^[^/]*//(.*?)(?::[0-9]+)?$') = $6::text)
        AND ($12::text[] IS NULL OR j.origin = ANY ($12::text[]))
        AND ($7::timestamptz IS NULL OR j.created_at > $7::timestamptz)
        AND ($8::jsonb IS NULL OR j.metadata @> $8::jsonb)
        AND ($17::uuid IS NULL OR j.retry_of = $17::uuid)
        AND ($19::text[] IS NULL OR substring(j.error from '^[{]"code":"([^"]*)"') = ANY ($19::text[]))
        AND ($23::text IS NULL OR j.job_group = ANY (ARRAY(
            SELECT g.id FROM job_groups g WHERE g.tenant = $1::text AND g.name = $23::text)))
    UNION ALL
    SELECT j.tenant, j.state, NULL, j.revision, j.attempt, j.failed_attempts, j.node, j.created_at,
        j.started_at, NULL, NULL, false, j.retry_of, j.spec, j.error, j.origin, j.traceparent, j.finished_at,
        j.response, j.result, j.resume_data, false, NULL, NULL, j.acknowledged_at,
        CASE WHEN j.resume_data IS NOT NULL
            THEN kept_attempt(array_append(j.attempts, j.last_attempt)) END,
        NULL, NULL, j.spec_revision, NULL, j.endpoint_acknowledgement, j.retried_by,
        CASE WHEN j.job_group IS NOT NULL THEN (
            SELECT g.name FROM job_groups g WHERE g.id = j.job_group) END,
        CASE WHEN $22::text[] IS NOT NULL THEN ROW(
            CASE WHEN 'state' = ANY ($22::text[]) THEN j.state END,
            CASE WHEN 'host' = ANY ($22::text[]) THEN j.origin END,
            CASE WHEN 'error' = ANY ($22::text[]) THEN substring(j.error from '^[{]"code":"([^"]*)"') END,
            CASE WHEN 'group' = ANY ($22::text[]) THEN j.job_group END,
            NULL
        )::text END
    FROM finished_jobs j
    WHERE c.is_finished IS NOT FALSE AND ($13::uuid IS NULL OR c.id >= $13::uuid)
        AND j.id = c.id AND j.tenant = $1::text
        AND ($3::text IS NULL OR j.session = $3::text)
        AND ($11::text[] IS NULL OR j.state = ANY ($11::text[]::job_state[]))
        AND ($5::text IS NULL OR j.kind = $5::text::job_kind)
        AND ($6::text IS NULL OR substring(j.origin from '^[^/]*//(.*?)(?::[0-9]+)?$') = $6::text)
        AND ($12::text[] IS NULL OR j.origin = ANY ($12::text[]))
        AND ($7::timestamptz IS NULL OR j.created_at > $7::timestamptz)
        AND ($8::jsonb IS NULL OR j.metadata @> $8::jsonb)
        AND ($17::uuid IS NULL OR j.retry_of = $17::uuid)
        AND ($19::text[] IS NULL OR substring(j.error from '^[{]"code":"([^"]*)"') = ANY ($19::text[]))
        AND ($18::boolean IS NULL OR (j.retried_by IS NOT NULL) = $18::boolean)
        AND ($20::timestamptz IS NULL OR j.finished_at > $20::timestamptz)
        AND ($21::timestamptz IS NULL OR j.finished_at < $21::timestamptz)
        AND ($23::text IS NULL OR j.job_group = ANY (ARRAY(
            SELECT g.id FROM job_groups g WHERE g.tenant = $1::text AND g.name = $23::text)))
    LIMIT 1
) w ON true
WHERE w.tenant IS NOT NULL OR c.number = $14::integer
ORDER BY c.of DESC, c.id DESC LIMIT $9::integer
