-- Removes the narrow claim queues that lock_old_lots.sql has locked if they have no jobs. The others are
-- looked at again later. Locks: their rows.
WITH old AS MATERIALIZED (
    SELECT o.id,
        (SELECT true FROM jobs j WHERE (j.lot < 0) IS TRUE AND j.lot = o.id LIMIT 1) IS NOT NULL AS is_used
    FROM unnest(string_to_array(current_setting('ferry.lots'), ',')::bigint[]) AS o(id)
), gone AS (
    DELETE FROM lots l USING old o WHERE l.id = ANY (ARRAY[o.id]) AND NOT o.is_used
)
UPDATE lots l SET used_at = now() FROM old o WHERE l.id = ANY (ARRAY[o.id]) AND o.is_used
