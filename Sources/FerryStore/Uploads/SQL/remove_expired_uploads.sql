-- Removes expired uploads of a node, and those of other nodes that have not removed them for a day. Locks:
-- those rows; skips rows that another transaction has locked.
-- $1 node, $2 now, $3 maximum number. Returns the ids of the uploads of the node.
WITH gone AS (
    DELETE FROM uploads WHERE id = ANY (ARRAY(
        SELECT id FROM uploads
        WHERE expires_at < $2::timestamptz
            AND (node = $1::uuid OR expires_at < $2::timestamptz - interval '1 day')
        ORDER BY expires_at LIMIT $3::integer FOR UPDATE SKIP LOCKED))
    RETURNING id, node
)
SELECT id FROM gone WHERE node = $1::uuid
