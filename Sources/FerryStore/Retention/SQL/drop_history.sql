-- Removes a partition that was taken away. Locks: it, exclusively and before all else; gives way to whoever
-- reads it. $1 the partition, $2 the time since which jobs in it that have ended stay after all.
SELECT drop_finished_jobs($1::text, $2::timestamptz)
