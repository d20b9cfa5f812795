-- Removes the narrow claim queues that lock_old_claim_queues.sql has locked if they have no jobs. The others
-- are looked at again later. Locks: their rows.
WITH old AS MATERIALIZED (
    SELECT o.id,
        (SELECT true FROM jobs j WHERE (j.queue < 0) IS TRUE AND j.queue = o.id LIMIT 1) IS NOT NULL
            AS is_used
    FROM unnest(string_to_array(current_setting('ferry.claim_queues'), ',')::bigint[]) AS o(id)
), gone AS (
    DELETE FROM claim_queues l USING old o WHERE l.id = ANY (ARRAY[o.id]) AND NOT o.is_used
)
UPDATE claim_queues l SET used_at = now() FROM old o WHERE l.id = ANY (ARRAY[o.id]) AND o.is_used
