-- Gives a schedule another definition and job, or only another definition. Locks: the row. $1 id,
-- $2 revision, $3 now, $4 next occurrence or null, $5 when it runs or null, $6 whether it watches its jobs,
-- $7 definition, $8 spec, or null when the job stays, $9 sealed secrets or null, $10 payload or null. Returns
-- the id; no row: it has changed meanwhile.
UPDATE schedules SET
    revision = revision + 1, updated_at = $3::timestamptz, next_scheduled_at = $4::timestamptz,
    next_run_at = $5::timestamptz, is_held = false, watches_jobs = $6::boolean, definition = $7::text,
    spec = coalesce($8::text, spec),
    secrets = CASE WHEN $8::text IS NULL THEN secrets ELSE $9::bytea END,
    payload = CASE WHEN $8::text IS NULL THEN payload ELSE $10::bytea END
WHERE id = $1::uuid AND revision = $2::integer
RETURNING id
