-- Makes a delivery due now, whatever its state is. Locks: its row, then this connection's row of job_counts.
-- $1 id, $2 tenant. Returns the id; no row if there is no such delivery.
WITH before AS (
    SELECT id, state FROM deliveries WHERE id = $1::uuid AND tenant = $2::text FOR UPDATE
), changed AS (
    UPDATE deliveries d SET state = 'pending', next_try_at = now() FROM before b WHERE d.id = b.id
    RETURNING d.id, b.state
), counted AS (
    INSERT INTO job_counts AS c (shard, deliveries_pending)
    SELECT current_setting('ferry.shard'), count(*) FROM changed WHERE state <> 'pending' HAVING count(*) > 0
    ON CONFLICT (shard) DO UPDATE SET deliveries_pending = c.deliveries_pending + excluded.deliveries_pending
)
SELECT id FROM changed
