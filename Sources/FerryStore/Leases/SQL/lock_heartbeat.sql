-- Waits until no rescue is under way, and keeps one from beginning. Locks: the advisory lock $1, together
-- with other heartbeats, until the transaction ends. A statement after it sees what that rescue has taken.
SELECT pg_advisory_xact_lock_shared($1::bigint)
