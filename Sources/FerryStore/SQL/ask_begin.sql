-- Asks whether a job whose time has come may begin. Locks: the job. $1 id, $2 revision, $3 the question, $4
-- when nobody is waited for any more. Returns the id; no row: it has changed meanwhile.
WITH changed AS (
    UPDATE jobs SET
        waiting_for = 'confirmation', question = $3::text, next_attempt_at = $4::timestamptz,
        revision = revision + 1
    WHERE id = $1::uuid AND revision = $2::integer AND state = 'waiting' AND asks
    RETURNING *
), told AS (
    INSERT INTO event_inbox (tenant, session, packed)
    SELECT tenant, session,
        event_pack(4, wanted_events, id, now(), attempt, revision, state, waiting_for, NULL)
    FROM changed
)
SELECT id FROM changed
