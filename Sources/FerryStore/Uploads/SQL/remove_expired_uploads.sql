-- Removes expired uploads of a node, and those of other nodes that have not removed them for a day. A
-- complete upload stays while an unfinished job or a schedule with a next occurrence needs it. Tells the jobs
-- that wait for an incomplete one.
-- Locks: those rows; skips rows that another transaction has locked.
-- $1 node, $2 now, $3 maximum number. Returns the ids of the uploads whose bytes are on the node's disk or in
-- an object, whether jobs may wait for each, and the key of the object or null.
WITH gone AS (
    DELETE FROM uploads WHERE id = ANY (ARRAY(
        SELECT id FROM uploads
        WHERE expires_at < $2::timestamptz
            AND (node = $1::uuid OR expires_at < $2::timestamptz - interval '1 day')
            AND NOT (is_complete AND (is_upload_needed(id) OR is_upload_scheduled(tenant, id, name)))
        ORDER BY expires_at LIMIT $3::integer FOR UPDATE SKIP LOCKED))
    RETURNING id, node, is_awaited AND NOT is_complete AS is_awaited, object
), unused AS (
    DELETE FROM upload_jobs WHERE upload = ANY (ARRAY(SELECT id FROM gone))
), told AS (
    INSERT INTO dependency_outbox (job, state, group_round) SELECT id, 'failed', -1 FROM gone WHERE is_awaited
)
SELECT id, is_awaited, object FROM gone WHERE node = $1::uuid OR object IS NOT NULL
