-- Reads a group with its counts. Locks nothing. $1 tenant, $2 name.
SELECT id, tenant, name, definition, secrets, round, created_at, closed_at, finished_at, waiting, queued,
    running, suspended, succeeded, failed, cancelled, open_failures, bytes_received, bytes_sent, recent_jobs,
    recent_bytes
FROM counted_job_groups WHERE tenant = $1::text AND name = $2::text
