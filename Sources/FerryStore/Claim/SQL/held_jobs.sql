-- Reads the leases of a node: id, attempt, revision, whether cancellation was requested, whether it keeps the
-- bytes, whether suspension was requested. Locks nothing. $1 the node.
SELECT id, attempt, revision, cancel_requested, keeps_bytes, suspend_requested
FROM jobs WHERE node = $1::uuid
