-- Reads a page of a tenant's schedules, newest first. Locks nothing. Compared as in list_jobs.sql.
-- $1 tenant, $2 upper bound of ids (exclusive), $3 maximum number of schedules. Columns as in
-- read_schedule.sql; secrets and payloads are null, and the specs of a list of jobs, which may be a megabyte.
SELECT id, tenant, revision, created_at, updated_at, definition,
    CASE WHEN closes_group IS NULL THEN specs END, next_scheduled_at, next_run_at, last_scheduled_at,
    last_run_at, last_job, run_count, missed_count, skipped_count, NULL::bytea[], NULL::bytea[], is_held,
    last_skipped_at, skip_reason, job_group, closes_group
FROM schedules WHERE tenant = ANY (ARRAY[$1::text]) AND id < $2::uuid
ORDER BY tenant DESC, id DESC LIMIT $3::integer
