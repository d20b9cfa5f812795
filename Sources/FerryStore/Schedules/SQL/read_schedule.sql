-- Reads a schedule. Locks nothing. $1 id, $2 tenant.
SELECT id, tenant, revision, created_at, updated_at, definition, specs, next_scheduled_at, next_run_at,
    last_scheduled_at, last_run_at, last_job, run_count, missed_count, skipped_count, secrets,
    payloads, is_held, last_skipped_at, skip_reason, job_group, closes_group
FROM schedules WHERE id = $1::uuid AND tenant = $2::text
