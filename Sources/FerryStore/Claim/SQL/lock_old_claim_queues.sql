-- Locks narrow claim queues that no node has read lately, for remove_old_claim_queues.sql. A statement of its
-- own, so that the next one sees what the holders before have committed. Locks: their rows. $1 seconds, $2
-- how many at most.
WITH old AS MATERIALIZED (
    SELECT id FROM claim_queues WHERE id < 0 AND used_at < now() - make_interval(secs => $1::double precision)
    ORDER BY used_at LIMIT $2::integer FOR UPDATE SKIP LOCKED
)
SELECT set_config('ferry.claim_queues', coalesce(string_agg(id::text, ','), ''), true) FROM old
