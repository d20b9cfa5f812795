-- Finishes those of the groups that are closed and have no unfinished job and no event in the inbox. Locks:
-- these groups, until the end of the transaction. $1 ids, $2 now. Returns the ids of the finished groups, and
-- whether jobs depend on them: dependency_outbox then has the outcome.
SELECT id, has_dependents FROM finish_job_groups($1::uuid[], $2::timestamptz)
