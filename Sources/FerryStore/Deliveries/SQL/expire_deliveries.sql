-- Deletes deliveries that were accepted or given up, with their tries. Locks: their rows, unless somebody
-- else has them. $1 only ids below this one, $2 how many at most, $3 only ids above this one. Returns their
-- ids.
WITH old AS (
    SELECT id FROM deliveries WHERE id > $3::uuid AND id < $1::uuid AND state <> 'pending'
    ORDER BY id LIMIT $2::integer FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM deliveries d USING old WHERE d.id = ANY (ARRAY[old.id]) RETURNING d.id
), tries AS (
    DELETE FROM delivery_tries t USING gone g WHERE t.delivery = ANY (ARRAY[g.id])
)
SELECT id FROM gone
