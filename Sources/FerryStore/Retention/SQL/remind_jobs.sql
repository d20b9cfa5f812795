-- Writes reminder events for finished jobs that are not acknowledged, and gives up those whose time is over.
-- A missing job (deleted, or just moving between partitions) is forgotten when its time is over. A job whose
-- end a receiver has accepted is only returned: the caller runs acknowledge_jobs.sql.
-- Locks: rows of unacknowledged_jobs, skipping those that another transaction has locked, then those of
-- finished_jobs.
-- $1 now, $2 maximum number of jobs.
-- Returns the jobs, whether their webhooks want the event, and whether a receiver has accepted their end.
WITH due AS MATERIALIZED (
    SELECT * FROM unacknowledged_jobs WHERE next_look_at <= $1::timestamptz
    ORDER BY next_look_at LIMIT $2::integer FOR UPDATE SKIP LOCKED
), known AS MATERIALIZED (
    SELECT d.job, d.tenant, d.session, d.wanted_events, j.attempt, j.revision, j.state,
        j.id IS NULL AS is_gone, d.expires_at <= $1::timestamptz AS is_over,
        d.is_by_webhook AND (
            SELECT true FROM deliveries e
            WHERE e.job = d.job AND e.state = 'accepted'
                AND (d.endpoint IS NULL OR e.endpoint = d.endpoint)
                AND e.type IN ('job.succeeded', 'job.failed', 'job.cancelled', 'job.unacknowledged')
            LIMIT 1) IS NOT NULL AS is_confirmed
    FROM due d LEFT JOIN finished_jobs j ON j.id = ANY (ARRAY[d.job])
), over AS (
    DELETE FROM unacknowledged_jobs u USING known k
    WHERE u.job = ANY (ARRAY[k.job]) AND k.is_over AND NOT k.is_confirmed
), given_up AS (
    UPDATE finished_jobs j SET given_up_at = $1::timestamptz, revision = j.revision + 1
    FROM known k
    WHERE j.id = ANY (ARRAY[k.job]) AND k.is_over AND NOT k.is_confirmed AND j.acknowledged_at IS NULL
    RETURNING j.id, j.tenant, j.session, j.attempt, j.revision, j.state, k.wanted_events
), looked AS (
    UPDATE unacknowledged_jobs u SET
        reminder_count = u.reminder_count + CASE WHEN k.is_gone THEN 0 ELSE 1 END,
        next_look_at = CASE WHEN k.is_gone THEN u.expires_at
            ELSE reminder_at(u.rules, u.reminder_count + 1, $1::timestamptz, u.expires_at) END
    FROM known k
    WHERE u.job = ANY (ARRAY[k.job]) AND NOT k.is_over AND NOT k.is_confirmed
), said AS (
    SELECT 14 AS type, job, tenant, session, attempt, revision, state, wanted_events FROM known
    WHERE NOT is_gone AND NOT is_over AND NOT is_confirmed
    UNION ALL
    SELECT 16, id, tenant, session, attempt, revision, state, wanted_events FROM given_up
), told AS (
    INSERT INTO event_inbox (tenant, session, packed)
    SELECT tenant, session, string_agg(
        event_pack(type, wanted_events, job, $1::timestamptz, attempt, revision, state, NULL, NULL),
        ''::bytea)
    FROM said GROUP BY tenant, session
)
SELECT job, coalesce(wanted_events >> 14 & 5, 0) <> 0, is_confirmed FROM known
