-- Gives a schedule another definition and job, or only another definition. Locks: the row. $1 id,
-- $2 revision, $3 now, $4 next occurrence or null, or -infinity: the one in the row stays, held or not; $5
-- when it runs or null; if it stays: when it is looked at at the latest, or null: as it is; $6 whether it
-- watches its jobs, $7 definition, $8 spec, or null when the job stays, $9 sealed secrets or null, $10
-- payload or null. Returns the id; no row: it has changed meanwhile.
UPDATE schedules SET
    revision = revision + 1, updated_at = $3::timestamptz,
    next_scheduled_at = CASE WHEN $4::timestamptz = '-infinity' THEN next_scheduled_at
        ELSE $4::timestamptz END,
    next_run_at = CASE WHEN $4::timestamptz = '-infinity' AND ($5::timestamptz < next_run_at) IS NOT TRUE
        THEN next_run_at ELSE $5::timestamptz END,
    is_held = is_held AND ($4::timestamptz = '-infinity') IS TRUE,
    watches_jobs = $6::boolean, definition = $7::text, spec = coalesce($8::text, spec),
    secrets = CASE WHEN $8::text IS NULL THEN secrets ELSE $9::bytea END,
    payload = CASE WHEN $8::text IS NULL THEN payload ELSE $10::bytea END
WHERE id = $1::uuid AND revision = $2::integer
RETURNING id
