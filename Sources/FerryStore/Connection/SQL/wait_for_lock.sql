-- Waits for an advisory lock and holds it, exclusively, until the transaction ends. A statement after it sees
-- what the holders before have committed. Locks: the advisory lock $1.
SELECT pg_advisory_xact_lock($1::bigint)
