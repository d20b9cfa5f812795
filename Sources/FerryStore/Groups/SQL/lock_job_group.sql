-- Waits for the transactions that insert jobs of a group. Locks: the group, until the end of the transaction.
-- $1 tenant, $2 name.
SELECT pg_advisory_xact_lock(job_group_lock($1::text, $2::text))
