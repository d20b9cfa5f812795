-- Waits until no reclaim is under way, and keeps one from beginning. Locks: the advisory lock $1, shared with
-- other heartbeats, until the transaction ends. A statement after it sees the jobs that a reclaim has taken.
SELECT pg_advisory_xact_lock_shared($1::bigint)
