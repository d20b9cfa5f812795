-- Reads the last heartbeat of every node but one, which watches whether they change (FailureDetector in the
-- source). Locks nothing. $1 that node.
SELECT id, heartbeat_at FROM nodes WHERE id <> $1::uuid
