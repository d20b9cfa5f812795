-- Reads what a node holds: id, attempt, revision, whether a cancellation was asked for. Locks nothing. $1 the
-- node.
SELECT id, attempt, revision, cancel_requested FROM jobs WHERE state = 'running' AND node = $1::uuid
