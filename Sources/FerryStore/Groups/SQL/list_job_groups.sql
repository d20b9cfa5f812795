-- Reads a page of a tenant's groups, newest first. Locks nothing. Compared as in list_jobs.sql.
-- $1 tenant, $2 upper bound of ids (exclusive), $3 maximum number. Columns as in read_job_group.sql.
SELECT id, tenant, name, definition, secrets, round, created_at, closed_at, finished_at, waiting, queued,
    running, suspended, succeeded, failed, cancelled, open_failures, bytes_received, bytes_sent, recent_jobs,
    recent_bytes
FROM counted_job_groups WHERE tenant = ANY (ARRAY[$1::text]) AND id < $2::uuid AND round > 0
ORDER BY tenant DESC, id DESC LIMIT $3::integer
