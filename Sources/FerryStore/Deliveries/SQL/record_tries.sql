-- Records tries and their verdicts. A try that was recorded before is left as it is. A try of a delivery that
-- is being deleted waits for the deletion and is not recorded.
-- The verdict of a try that is no longer the latest (its lease ended, or a redelivery was requested) changes
-- nothing, unless it is `accepted`. A delivery that was returned untried is due at once, and the try does not
-- count.
-- An endpoint remembers since when nothing was accepted. Status 410, or failing for too long, disables it and
-- writes an event.
-- Locks: the deliveries in the order of their ids, all of them before the first is changed; then endpoints
-- whose state changes; then this connection's row of job_counts.
-- The state is compared by what it is not, so that no plan starts from the index of pending deliveries. IS
-- TRUE keeps the planner from comparing each try with each delivery.
-- One array element a try: $1 deliveries, $2 numbers, $3 when they started, $4 seconds they took, $5 statuses
-- or null, $6 errors or null, $7 response bodies, $8 states or `returned`, $9 when to try again or null.
-- Returns the endpoints that were disabled, and the jobs that an accepted delivery acknowledges.
WITH known AS (
    SELECT id FROM deliveries WHERE id = ANY ($1::uuid[]) ORDER BY id FOR NO KEY UPDATE
), u AS (
    SELECT * FROM unnest(
        $1::uuid[], $2::integer[], $3::timestamptz[], $4::double precision[], $5::integer[], $6::text[],
        $7::text[], $8::text[], $9::timestamptz[]
    ) AS u(delivery, number, started_at, duration, status, error, answer, state, next_try_at)
    WHERE (delivery IN (SELECT id FROM known)) IS TRUE
), kept AS (
    INSERT INTO delivery_tries (delivery, number, started_at, duration, status, error, answer)
    SELECT delivery, number, started_at, duration, status, error, answer FROM u
    WHERE state <> 'returned'
    ON CONFLICT DO NOTHING
), changed AS (
    UPDATE deliveries d SET
        state = CASE WHEN u.state = 'returned' THEN 'pending' ELSE u.state END::delivery_state,
        tries = CASE WHEN u.state = 'returned' THEN d.tries - 1 ELSE d.tries END,
        next_try_at = CASE WHEN u.state = 'returned' THEN now()
            ELSE coalesce(u.next_try_at, d.next_try_at) END,
        node = NULL
    FROM u
    WHERE d.id = ANY (ARRAY[u.delivery]) AND d.state NOT IN ('accepted', 'given_up')
        AND (d.tries = u.number OR u.state = 'accepted')
    RETURNING d.state, d.endpoint, d.type, d.job, u.state AS verdict, u.status
), judged AS (
    SELECT endpoint, bool_or(verdict = 'accepted') AS is_accepted,
        coalesce(bool_or(status = 410), false) AS is_gone
    FROM changed
    WHERE endpoint IS NOT NULL AND verdict <> 'returned' AND type <> 'webhook.ping'
    GROUP BY endpoint
), recovered AS (
    UPDATE webhooks w SET failing_since = NULL FROM judged j
    WHERE w.id = ANY (ARRAY[j.endpoint]) AND j.is_accepted AND w.failing_since IS NOT NULL
), failing AS (
    UPDATE webhooks w SET
        failing_since = coalesce(w.failing_since, now()), is_enabled = NOT f.ends,
        disabled_at = CASE WHEN f.ends THEN now() END,
        disabled_reason = CASE WHEN f.is_gone THEN 'gone' WHEN f.ends THEN 'failing' END,
        updated_at = CASE WHEN f.ends THEN now() ELSE w.updated_at END,
        revision = w.revision + CASE WHEN f.ends THEN 1 ELSE 0 END
    FROM (
        SELECT j.endpoint, j.is_gone,
            j.is_gone OR coalesce(
                b.failing_since < now() - make_interval(secs => b.disable_after), false) AS ends
        FROM judged j JOIN webhooks b ON b.id = ANY (ARRAY[j.endpoint]) WHERE NOT j.is_accepted
    ) f
    WHERE w.id = ANY (ARRAY[f.endpoint]) AND w.is_enabled AND (w.failing_since IS NULL OR f.ends)
    RETURNING w.id, w.tenant, w.session, w.disabled_reason
), told AS (
    INSERT INTO event_inbox (tenant, session, packed)
    SELECT tenant, coalesce(session, 'default'), event_pack(
        17, NULL, '00000000-0000-0000-0000-000000000000', now(), 0, 0, NULL, NULL,
        uuid_send(id) || convert_to(disabled_reason, 'UTF8'))
    FROM failing WHERE disabled_reason IS NOT NULL
), counted AS (
    INSERT INTO job_counts AS c (shard, deliveries_pending)
    SELECT current_setting('ferry.shard'), -count(*) FROM changed WHERE state <> 'pending' HAVING count(*) > 0
    ON CONFLICT (shard) DO UPDATE SET deliveries_pending = c.deliveries_pending + excluded.deliveries_pending
)
SELECT id, tenant, disabled_reason, NULL::uuid AS job FROM failing WHERE disabled_reason IS NOT NULL
UNION ALL
SELECT NULL, NULL, NULL, c.job
FROM changed c JOIN unacknowledged_jobs u ON u.job = ANY (ARRAY[c.job])
WHERE (SELECT true FROM unacknowledged_jobs WHERE is_by_webhook LIMIT 1) AND u.is_by_webhook
    AND (u.endpoint IS NULL OR u.endpoint = c.endpoint)
    AND c.state = 'accepted'
    AND c.type IN ('job.succeeded', 'job.failed', 'job.cancelled', 'job.unacknowledged')
