-- Makes deliveries of an endpoint due again that are not pending, oldest first.
-- Locks: their rows, then this connection's row of job_counts.
-- $1 endpoint, $2 lower bound of ids (exclusive), $3 earliest time of events, $4 end of that time (exclusive)
-- or null, $5 whether only those that were given up, $6 maximum number of deliveries. Returns their ids.
WITH chosen AS (
    SELECT id FROM deliveries
    WHERE endpoint = ANY (ARRAY[$1::uuid]) AND endpoint IS NOT NULL AND id > $2::uuid
        AND type <> 'webhook.ping' AND occurred_at >= $3::timestamptz
        AND ($4::timestamptz IS NULL OR occurred_at < $4::timestamptz)
        AND (state = 'given_up' OR (state = 'accepted' AND NOT $5::boolean))
    ORDER BY endpoint, id LIMIT $6::integer FOR UPDATE
), changed AS (
    UPDATE deliveries SET state = 'pending', next_try_at = now()
    WHERE id = ANY (ARRAY(SELECT id FROM chosen))
    RETURNING id
), counted AS (
    INSERT INTO job_counts AS c (shard, deliveries_pending)
    SELECT current_setting('ferry.shard'), count(*) FROM changed HAVING count(*) > 0
    ON CONFLICT (shard) DO UPDATE SET deliveries_pending = c.deliveries_pending + excluded.deliveries_pending
)
SELECT id FROM changed ORDER BY id
