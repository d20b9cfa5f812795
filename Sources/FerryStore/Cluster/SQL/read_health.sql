-- Reads what makes queues slow: the age in seconds of the oldest transaction that keeps dead rows from being
-- removed, and the dead rows of the hot tables. Locks nothing.
SELECT coalesce((
        SELECT max(extract(epoch FROM now() - xact_start)) FROM pg_stat_activity
        WHERE backend_xmin IS NOT NULL AND datname = current_database()), 0)::double precision,
    coalesce((SELECT n_dead_tup FROM pg_stat_user_tables WHERE relid = 'jobs'::regclass), 0),
    coalesce((SELECT n_dead_tup FROM pg_stat_user_tables WHERE relid = 'job_counts'::regclass), 0)
