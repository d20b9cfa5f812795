-- Reads the jobs that a node holds. Locks: these jobs. $1 the node. Returns ids, attempts, nodes and
-- whether the job was only held and had not begun, as far as its row says, and whether its request must not
-- be sent twice and was not sent.
SELECT id, attempt, node, state = 'queued', NOT is_repeatable AND sent_attempt IS DISTINCT FROM attempt
FROM jobs WHERE node = $1::uuid FOR UPDATE
