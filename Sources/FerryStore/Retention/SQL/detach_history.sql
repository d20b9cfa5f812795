-- Takes a partition of finished jobs away. Locks: finished_jobs, for a moment and exclusively. $1 the
-- partition, $2 jobs in it that stay.
SELECT detach_finished_jobs($1::text, $2::uuid[])
