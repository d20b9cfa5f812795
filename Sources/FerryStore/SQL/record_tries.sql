-- Keeps what came of tries. A try that was recorded before is left as it is; the verdict of a try that is not
-- the last one any more (its lease ended, or somebody asked for a redelivery) changes nothing unless it is
-- acceptance. The state is compared by what it is not, so that no plan can start from the index of what is
-- pending. Locks: the deliveries, then this connection's row of job_counts. One array element a try: $1
-- deliveries, $2 numbers, $3 when they started, $4 seconds they took, $5 statuses or null, $6 errors or null,
-- $7 answers, $8 states, $9 when to try again or null.
WITH u AS (
    SELECT * FROM unnest(
        $1::uuid[], $2::integer[], $3::timestamptz[], $4::double precision[], $5::integer[], $6::text[],
        $7::text[], $8::text[], $9::timestamptz[]
    ) AS u(delivery, number, started_at, duration, status, error, answer, state, next_try_at)
), kept AS (
    INSERT INTO delivery_tries (delivery, number, started_at, duration, status, error, answer)
    SELECT delivery, number, started_at, duration, status, error, answer FROM u
    ON CONFLICT DO NOTHING
), changed AS (
    UPDATE deliveries d SET
        state = u.state::delivery_state, next_try_at = coalesce(u.next_try_at, d.next_try_at)
    FROM u
    WHERE d.id = ANY (ARRAY[u.delivery]) AND d.state NOT IN ('accepted', 'given_up')
        AND (d.tries = u.number OR u.state = 'accepted')
    RETURNING d.state
)
INSERT INTO job_counts AS c (shard, deliveries_pending)
SELECT current_setting('ferry.shard'), -count(*) FROM changed WHERE state <> 'pending' HAVING count(*) > 0
ON CONFLICT (shard) DO UPDATE SET deliveries_pending = c.deliveries_pending + excluded.deliveries_pending
