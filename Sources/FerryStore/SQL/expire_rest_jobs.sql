-- Deletes finished jobs that ended when the partition of their time was gone, as expire_session_jobs.sql. $1
-- only what ended before, $2 how many at most, $3 only ids above this one. Returns their ids.
WITH old AS (
    SELECT f.id FROM finished_jobs_rest f
    WHERE f.id > $3::uuid
        AND greatest(f.finished_at, f.acknowledged_at, f.given_up_at) < $1::timestamptz
        AND (SELECT true FROM unacknowledged_jobs u WHERE u.job = f.id) IS NULL
    ORDER BY f.id LIMIT $2::integer FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM finished_jobs_rest j USING old WHERE j.id = ANY (ARRAY[old.id]) RETURNING j.id
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
