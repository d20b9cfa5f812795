-- Reads the partitions of finished jobs, oldest first, including detached ones. Locks nothing.
-- Returns names, whether they are attached, and the approximate number of rows.
SELECT c.relname::text, i.inhrelid IS NOT NULL, greatest(0, c.reltuples)::bigint
FROM pg_class c LEFT JOIN pg_inherits i ON i.inhrelid = c.oid
WHERE c.relkind = 'r' AND c.relname ~ '^finished_jobs_[0-9a-f]{12}$'
    AND c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'finished_jobs'::regclass)
ORDER BY c.relname
