-- Applies the answer to a job's question: queues the job, or asks the next question. Notifies the nodes of
-- queued work.
-- Locks: the job, then this connection's row of job_counts.
-- $1 id, $2 expected revision, $3 spec, $4 origin, $5 whether the secrets change, $6 new sealed secrets or
-- null, $7 next question or null, $8 when that question expires, $9 claim queue (column `lot`), $10 path of
-- its scope, $11 whether its request may be repeated, $12 whether it waits for its host.
-- Returns the id; no row if the job has changed meanwhile.
WITH changed AS (
    UPDATE jobs SET
        spec = $3::text, origin = $4::text, scope_path = $10::text, is_repeatable = $11::boolean,
        awaits_host = $12::boolean,
        secrets = CASE WHEN $5::boolean THEN $6::bytea ELSE secrets END,
        lot = $9::bigint, question = $7::text, next_attempt_at = $8::timestamptz, asks = $7::text IS NOT NULL,
        state = CASE WHEN $7::text IS NULL THEN 'queued' ELSE 'waiting' END::job_state,
        queued_at = now(), waiting_for = CASE WHEN $7::text IS NOT NULL THEN waiting_for END,
        revision = revision + 1
    WHERE id = $1::uuid AND revision = $2::integer AND state = 'waiting' AND question IS NOT NULL
    RETURNING *
), told AS (
    INSERT INTO event_inbox (tenant, session, packed)
    SELECT tenant, session,
        event_pack(5, wanted_events, id, now(), attempt, revision, state, waiting_for, NULL)
    FROM changed WHERE question IS NOT NULL
), counted AS (
    INSERT INTO job_counts AS c (shard, waiting, queued)
    SELECT current_setting('ferry.shard'), -count(*), count(*) FROM changed WHERE state = 'queued'
    HAVING count(*) > 0
    ON CONFLICT (shard) DO UPDATE SET
        waiting = c.waiting + excluded.waiting, queued = c.queued + excluded.queued
)
SELECT id, pg_notify('ferry', 'work') FROM changed
