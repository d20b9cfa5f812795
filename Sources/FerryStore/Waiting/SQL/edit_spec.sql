-- Replaces the fields of an unfinished job, and keeps the earlier ones for events of that time. The caller
-- has changed the row in the same transaction (change_jobs.sql), and so has checked its revision, which is
-- the first one with the new fields. The claim queue of a leased job stays unless its scope changes: limits
-- then count the job where its next request goes.
-- Locks: the job and the new row.
-- $1 id, $2 spec, $3 metadata or null, $4 priority, $5 expiry, $6 origin, $7 claim queue
-- (column `queue`), $8 urgency, $9 whether it needs a confirmation before it begins, used if no question is
-- open, $10 whether the secrets change, $11 new sealed secrets or null, $12 path of its scope, $13 whether
-- its request may be repeated, $14 whether it waits for its host, $15 whether the inline body changes, $16
-- new inline body or null, $17 whether the request with which the next attempt was to begin no longer
-- belongs to the job.
WITH replaced AS (
    INSERT INTO earlier_specs (job, last_revision, spec)
    SELECT id, revision - 1, spec FROM jobs WHERE id = $1::uuid AND spec <> $2::text
)
UPDATE jobs SET
    spec_revision = CASE WHEN spec <> $2::text THEN revision ELSE spec_revision END,
    spec = $2::text, metadata = $3::jsonb, priority = $4::real, expires_at = $5::timestamptz,
    origin = $6::text,
    queue = CASE WHEN node IS NOT NULL AND origin = $6::text AND scope_path = $12::text THEN queue
        ELSE $7::bigint END,
    urgency = $8::timestamptz,
    asks = CASE WHEN question IS NULL THEN $9::boolean ELSE asks END,
    secrets = CASE WHEN $10::boolean THEN $11::bytea ELSE secrets END,
    payload = CASE WHEN $15::boolean THEN $16::bytea ELSE payload END,
    scope_path = $12::text, is_repeatable = $13::boolean, awaits_host = $14::boolean,
    next_request = CASE WHEN NOT $17::boolean THEN next_request END
WHERE id = $1::uuid
