-- Adds a partition of finished jobs. Locks: finished_jobs against other partitions, then finished_jobs_rest.
-- $1 lowest id of the partition, $2 end of its ids (exclusive).
SELECT add_finished_jobs($1::uuid, $2::uuid)
