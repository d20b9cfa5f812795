-- Deletes finished jobs of a session that is not the default one, with their deliveries. Locks: their rows
-- unless somebody else has them, their deliveries, then this connection's row of job_counts. $1 tenant, $2
-- session, $3 only ids below this one, $4 only what ended before, $5 how many at most, $6 only ids above
-- this one. Returns their ids.
WITH old AS (
    SELECT f.id FROM finished_jobs f
    WHERE f.tenant = $1::text AND f.session = $2::text AND f.session <> 'default'
        AND f.id < $3::uuid AND f.id > $6::uuid
        AND greatest(f.finished_at, f.acknowledged_at, f.given_up_at) < $4::timestamptz
        AND (SELECT true FROM unacknowledged_jobs u WHERE u.job = f.id) IS NULL
    ORDER BY f.tenant, f.session, f.id LIMIT $5::integer FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM finished_jobs j USING old WHERE j.id = ANY (ARRAY[old.id]) RETURNING j.id
), untold AS (
    DELETE FROM deliveries d USING gone g WHERE d.job = ANY (ARRAY[g.id]) RETURNING d.id, d.state
), tries AS (
    DELETE FROM delivery_tries t USING untold u WHERE t.delivery = ANY (ARRAY[u.id])
), counted AS (
    INSERT INTO job_counts AS c (shard, deliveries_pending)
    SELECT current_setting('ferry.shard'), -count(*) FROM untold WHERE state = 'pending' HAVING count(*) > 0
    ON CONFLICT (shard) DO UPDATE SET deliveries_pending = c.deliveries_pending + excluded.deliveries_pending
)
SELECT id FROM gone
