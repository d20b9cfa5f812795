-- Reads leased jobs of dead nodes. The caller has found out which nodes are dead (FailureDetector in the
-- source); a node with a later heartbeat is not. A node that holds jobs and has no row is dead as well. That
-- should not happen (remove_node.sql, fold_counts.sql), and to find it takes a look at all leased jobs.
-- Locks: the returned jobs; skips rows that another transaction has locked.
-- $1 dead nodes, $2 their last heartbeats, $3 how many jobs at most, $4 whether to look for nodes without a
-- row. Returns ids, attempts, nodes and whether the job was only held and had not begun, as far as its row
-- says, and whether its request must not be sent twice and was not sent.
SELECT j.id, j.attempt, j.node, j.state = 'queued',
    NOT j.is_repeatable AND j.sent_attempt IS DISTINCT FROM j.attempt
FROM jobs j
WHERE j.node IS NOT NULL AND j.id = ANY (ARRAY(
        SELECT r.id FROM jobs r
        WHERE r.node = ANY (ARRAY(
            SELECT n.id
            FROM nodes n JOIN unnest($1::uuid[], $2::timestamptz[]) AS d(id, heartbeat_at)
                ON d.id = n.id AND d.heartbeat_at = n.heartbeat_at))
        LIMIT $3::integer
        FOR UPDATE OF r SKIP LOCKED)
    || CASE WHEN $4::boolean THEN ARRAY(
        SELECT r.id FROM jobs r
        WHERE r.node IS NOT NULL AND NOT EXISTS (SELECT FROM nodes n WHERE n.id = r.node)
        LIMIT $3::integer
        FOR UPDATE OF r SKIP LOCKED) END)
