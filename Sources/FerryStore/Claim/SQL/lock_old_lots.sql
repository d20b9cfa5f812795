-- Takes narrow lots of which no node has learned lately, for remove_old_lots.sql: a statement of its own, so
-- that that one sees what whoever had them has committed. Locks: their rows. $1 seconds, $2 how many at most.
WITH old AS MATERIALIZED (
    SELECT id FROM lots WHERE id < 0 AND used_at < now() - make_interval(secs => $1::double precision)
    ORDER BY used_at LIMIT $2::integer FOR UPDATE SKIP LOCKED
)
SELECT set_config('ferry.lots', coalesce(string_agg(id::text, ','), ''), true) FROM old
