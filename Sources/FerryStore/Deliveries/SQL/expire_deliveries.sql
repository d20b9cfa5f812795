-- Deletes accepted and given up deliveries with their tries. Locks: their rows; skips rows that another
-- transaction has locked.
-- $1 upper bound of ids (exclusive), $2 maximum number of deliveries, $3 lower bound of ids (exclusive).
-- Returns their ids.
WITH old AS (
    SELECT id FROM deliveries WHERE id > $3::uuid AND id < $1::uuid AND state <> 'pending'
    ORDER BY id LIMIT $2::integer FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM deliveries d USING old WHERE d.id = ANY (ARRAY[old.id]) RETURNING d.id
), tries AS (
    DELETE FROM delivery_tries t USING gone g WHERE t.delivery = ANY (ARRAY[g.id])
)
SELECT id FROM gone
