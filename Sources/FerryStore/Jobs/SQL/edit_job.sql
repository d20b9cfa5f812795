-- Edits an unfinished job.
-- Locks: the job, then this connection's row of job_counts.
-- $1 id, $2 expected revision, $3 spec, $4 metadata or null, $5 priority, $6 expiry, $7 origin.
-- $8 whether the job is rescheduled: its begin changes, it no longer waits for its host, or its question is
-- withdrawn. It must then be waiting or queued.
-- $9 begin date, or null if it may begin now; used if $8.
-- $10 deadline or null, $11 claim queue (column `lot`), $12 urgency, $13 whether it needs a confirmation
-- before it begins, $14 whether the secrets change, $15 new sealed secrets or null, $16 path of its scope,
-- $17 whether its request may be repeated, $18 whether it waits for its host.
-- Returns the id; no row if the job has changed meanwhile.
WITH found AS (
    SELECT id, state FROM jobs
    WHERE id = $1::uuid AND revision = $2::integer
        AND (NOT $8::boolean OR state IN ('waiting', 'queued'))
    FOR UPDATE
), changed AS (
    UPDATE jobs j SET
        spec = $3::text, metadata = $4::jsonb, priority = $5::real, expires_at = $6::timestamptz,
        origin = $7::text, scope_path = $16::text, is_repeatable = $17::boolean,
        awaits_host = $18::boolean, deadline_at = $10::timestamptz,
        lot = CASE WHEN j.state = 'running' THEN j.lot ELSE $11::bigint END, urgency = $12::timestamptz,
        secrets = CASE WHEN $14::boolean THEN $15::bytea ELSE j.secrets END,
        revision = j.revision + 1,
        state = CASE WHEN NOT $8::boolean THEN j.state
            WHEN $9::timestamptz IS NULL AND NOT $13::boolean THEN 'queued'
            ELSE 'waiting' END::job_state,
        queued_at = CASE WHEN j.state = 'queued' THEN j.queued_at ELSE now() END,
        waiting_for = CASE WHEN NOT $8::boolean THEN j.waiting_for
            WHEN $9::timestamptz IS NOT NULL OR $13::boolean THEN 'begin_date' END::waiting_for,
        next_attempt_at = CASE WHEN NOT $8::boolean THEN j.next_attempt_at
            WHEN $13::boolean THEN coalesce($9::timestamptz, now()) ELSE $9::timestamptz END,
        question = CASE WHEN NOT $8::boolean THEN j.question END,
        asks = CASE WHEN j.question IS NOT NULL AND NOT $8::boolean THEN j.asks ELSE $13::boolean END
    FROM found WHERE j.id = found.id
    RETURNING j.id, j.state, found.state AS state_before
), counted AS (
    INSERT INTO job_counts AS c (shard, waiting, queued)
    SELECT current_setting('ferry.shard'),
        count(*) FILTER (WHERE state = 'waiting') - count(*) FILTER (WHERE state_before = 'waiting'),
        count(*) FILTER (WHERE state = 'queued') - count(*) FILTER (WHERE state_before = 'queued')
    FROM changed WHERE state <> state_before HAVING count(*) > 0
    ON CONFLICT (shard) DO UPDATE SET
        waiting = c.waiting + excluded.waiting, queued = c.queued + excluded.queued
)
SELECT id FROM changed
