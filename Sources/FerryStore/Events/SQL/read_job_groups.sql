-- Reads groups with their counts. Locks nothing. $1 ids. Columns as in read_job_group.sql.
SELECT id, tenant, name, definition, secrets, round, created_at, closed_at, finished_at, waiting, queued,
    running, suspended, succeeded, failed, cancelled, open_failures, bytes_received, bytes_sent, recent_jobs,
    recent_bytes
FROM counted_job_groups WHERE id = ANY ($1::uuid[])
