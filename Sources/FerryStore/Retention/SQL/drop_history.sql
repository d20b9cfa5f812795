-- Drops a detached partition, except for jobs that have ended since $2. Locks: the partition, exclusively,
-- before all other locks; gives up if another transaction reads it. $1 partition, $2 end of the retention.
SELECT drop_finished_jobs($1::text, $2::timestamptz)
