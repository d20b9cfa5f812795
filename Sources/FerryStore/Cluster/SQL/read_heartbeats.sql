-- Reads the last heartbeat of every node but one, which watches whether they change (FailureDetector in the
-- source), with the address of the node and whether it runs attempts. Locks nothing. $1 that node.
SELECT id, heartbeat_at, url, is_worker FROM nodes WHERE id <> $1::uuid
