-- Reads a schedule. Locks nothing. $1 id, $2 tenant.
SELECT id, tenant, revision, created_at, updated_at, definition, spec, next_scheduled_at, next_run_at,
    last_scheduled_at, last_run_at, last_job, run_count, missed_count, skipped_count, secrets, payload,
    is_held, last_skipped_at, skip_reason
FROM schedules WHERE id = $1::uuid AND tenant = $2::text
