-- Detaches a partition of finished jobs. Locks: finished_jobs, exclusively, for a moment. $1 partition, $2
-- jobs in it to keep.
SELECT detach_finished_jobs($1::text, $2::uuid[])
