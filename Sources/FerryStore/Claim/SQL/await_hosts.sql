-- Lets the first queued jobs of claim queues wait for connectivity if their origins are unreachable. A job
-- that has another way (job_awaits_host) or a requested cancellation stays queued. No lease and no attempt is
-- used up. Writes an event for the first wait of a job.
-- Locks: queued rows that no other transaction has locked, then this connection's row of job_counts.
-- $1 claim queues, $2 rows of each to look at, $3 codes why origins are unreachable, $4 the error for each
-- code. Returns each claim queue with how many of its jobs wait now.
WITH met AS (
    SELECT w.lot, j.id, (SELECT h.unreachable FROM hosts h WHERE h.origin = j.origin) AS code
    FROM unnest($1::bigint[]) AS w(lot) CROSS JOIN LATERAL (
        SELECT id, origin FROM jobs
        WHERE state = 'queued' AND lot = w.lot
        ORDER BY urgency, id LIMIT $2::integer
        FOR UPDATE SKIP LOCKED) j
), away AS MATERIALIZED (
    SELECT m.lot, m.id, ($4::text[])[array_position($3::text[], m.code)] AS error
    FROM met m WHERE m.code IS NOT NULL
), changed AS (
    UPDATE jobs j SET
        state = 'waiting', waiting_for = 'connectivity', next_attempt_at = NULL,
        connectivity_waits = j.connectivity_waits + 1, error = coalesce(j.error, a.error),
        revision = j.revision + 1
    FROM away a
    WHERE j.id = ANY (ARRAY[a.id]) AND NOT j.cancel_requested AND job_awaits_host(j.spec, j.error)
    RETURNING j.id, j.state, j.waiting_for, j.attempt, j.revision, j.wanted_events, j.tenant, j.session,
        j.connectivity_waits, a.lot
), told AS (
    INSERT INTO event_inbox (tenant, session, packed)
    SELECT tenant, session, string_agg(
        event_pack(3, wanted_events, id, clock_timestamp(), attempt, revision, state, waiting_for, NULL),
        ''::bytea)
    FROM changed WHERE connectivity_waits = 1 GROUP BY tenant, session
), counted AS (
    INSERT INTO job_counts AS c (shard, queued, waiting)
    SELECT current_setting('ferry.shard'), -count(*), count(*) FROM changed HAVING count(*) > 0
    ON CONFLICT (shard) DO UPDATE SET
        queued = c.queued + excluded.queued, waiting = c.waiting + excluded.waiting
)
SELECT lot, count(*) FROM changed GROUP BY lot
