-- Replaces the definition of a schedule, and its jobs if $8 is not null. Locks: the row.
-- $1 id, $2 expected revision, $3 now.
-- $4 next occurrence or null; -infinity keeps the one in the row and whether it is held.
-- $5 when it runs or null; if $4 is -infinity, the latest time of the next check, or null to keep that time.
-- $6 whether it watches its jobs, $7 definition. One array element for each job: $8 specs, or null to keep
-- the jobs, $9 sealed secrets or null, $10 payloads or null. Of a list of jobs, else null: $11 its group or
-- null, $12 whether each run closes the group. Uploads that the jobs send: $13 ids,
-- $14 names.
-- Returns the id; no row if the schedule has changed meanwhile.
UPDATE schedules SET
    revision = revision + 1, updated_at = $3::timestamptz,
    next_scheduled_at = CASE WHEN $4::timestamptz = '-infinity' THEN next_scheduled_at
        ELSE $4::timestamptz END,
    next_run_at = CASE WHEN $4::timestamptz = '-infinity' AND ($5::timestamptz < next_run_at) IS NOT TRUE
        THEN next_run_at ELSE $5::timestamptz END,
    is_held = is_held AND ($4::timestamptz = '-infinity') IS TRUE,
    watches_jobs = $6::boolean, definition = $7::text, specs = coalesce($8::text[], specs),
    secrets = CASE WHEN $8::text[] IS NULL THEN secrets ELSE $9::bytea[] END,
    payloads = CASE WHEN $8::text[] IS NULL THEN payloads ELSE $10::bytea[] END,
    job_group = CASE WHEN $8::text[] IS NULL THEN job_group ELSE $11::text END,
    closes_group = CASE WHEN $8::text[] IS NULL THEN closes_group ELSE $12::boolean END,
    uploads = CASE WHEN $8::text[] IS NULL THEN uploads ELSE scheduled_uploads($13::uuid[], $14::text[]) END
WHERE id = $1::uuid AND revision = $2::integer
RETURNING id
