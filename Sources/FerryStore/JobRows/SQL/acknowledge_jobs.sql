-- Acknowledges the results of finished jobs, once each.
-- Locks: the jobs' rows of unacknowledged_jobs, then those of finished_jobs, in the same order as
-- remind_jobs.sql.
-- One array element a job: $1 ids, $2 events that their webhooks want (bit mask), or null to take those of
-- unacknowledged_jobs. $3 now.
-- Returns the ids that this statement has acknowledged.
WITH held AS MATERIALIZED (
    SELECT job, wanted_events FROM unacknowledged_jobs WHERE job = ANY ($1::uuid[]) ORDER BY job FOR UPDATE
), done AS (
    UPDATE finished_jobs j SET
        acknowledged_at = greatest(j.finished_at, $3::timestamptz), revision = j.revision + 1
    FROM (
        SELECT a.id, coalesce(h.wanted_events, a.wanted_events) AS wanted_events
        FROM unnest($1::uuid[], $2::integer[]) AS a(id, wanted_events) LEFT JOIN held h ON h.job = a.id
    ) a
    WHERE j.id = ANY (ARRAY[a.id]) AND j.acknowledged_at IS NULL
    RETURNING j.id, j.tenant, j.session, j.attempt, j.revision, j.state, j.acknowledged_at, a.wanted_events
), released AS (
    DELETE FROM unacknowledged_jobs u USING held h WHERE u.job = ANY (ARRAY[h.job])
), told AS (
    INSERT INTO event_inbox (tenant, session, packed)
    SELECT tenant, session, string_agg(
        event_pack(15, wanted_events, id, acknowledged_at, attempt, revision, state, NULL, NULL), ''::bytea)
    FROM done GROUP BY tenant, session
)
SELECT id FROM done
