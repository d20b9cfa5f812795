-- Reads what a node holds: id, attempt, revision, whether a cancellation was asked for, one that leaves the
-- bytes, a suspension. Locks nothing. $1 the node.
SELECT id, attempt, revision, cancel_requested, keeps_bytes, suspend_requested
FROM jobs WHERE state = 'running' AND node = $1::uuid
