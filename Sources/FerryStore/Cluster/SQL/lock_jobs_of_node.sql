-- Reads the jobs that a node holds. Locks: these jobs. $1 the node. Returns ids, attempts, nodes and
-- whether the job was only held and had not begun, as far as its row says.
SELECT id, attempt, node, state = 'queued' FROM jobs WHERE node = $1::uuid FOR UPDATE
