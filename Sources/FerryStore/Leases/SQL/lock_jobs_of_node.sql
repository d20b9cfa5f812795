-- Reads the jobs that a node holds. Locks: these jobs. $1 the node. Returns ids, attempts and nodes.
SELECT id, attempt, node FROM jobs WHERE state = 'running' AND node = $1::uuid FOR UPDATE
