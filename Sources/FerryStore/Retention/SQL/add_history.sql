-- Adds a partition of finished jobs. Locks: finished_jobs against other partitions, the one for the rest. $1
-- the first identifier that it may hold, $2 the first that it may not.
SELECT add_finished_jobs($1::uuid, $2::uuid)
