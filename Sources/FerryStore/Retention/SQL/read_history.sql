-- Reads the partitions of finished jobs, the oldest first, and those that were taken away but not removed
-- yet. Locks nothing. Returns names, whether they are attached, and about how many rows they have.
SELECT c.relname::text, i.inhrelid IS NOT NULL, greatest(0, c.reltuples)::bigint
FROM pg_class c LEFT JOIN pg_inherits i ON i.inhrelid = c.oid
WHERE c.relkind = 'r' AND c.relname ~ '^finished_jobs_[0-9a-f]{12}$'
    AND c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'finished_jobs'::regclass)
ORDER BY c.relname
