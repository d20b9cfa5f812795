-- Tries to become the only pass of the relay (RelayTransaction). Locks: the advisory lock $1 until the end of
-- the transaction, if no other transaction has it. Returns whether it got it.
SELECT pg_try_advisory_xact_lock($1::bigint)
