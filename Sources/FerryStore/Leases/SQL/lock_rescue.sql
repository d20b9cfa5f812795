-- Waits until no heartbeat is under way, and keeps others from beginning. Locks: the advisory lock $1,
-- exclusively, until the transaction ends. A statement after it sees what those heartbeats have written.
SELECT pg_advisory_xact_lock($1::bigint)
