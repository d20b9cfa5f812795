-- Asks whether jobs may begin whose begin date has come.
-- Locks: the jobs, which this transaction has locked already.
-- One array element a job: $1 ids, $2 questions, $3 when each question expires.
-- Returns the ids.
WITH changed AS (
    UPDATE jobs j SET
        waiting_for = 'confirmation', question = u.question, next_attempt_at = u.expires_at,
        revision = j.revision + 1
    FROM unnest($1::uuid[], $2::text[], $3::timestamptz[]) AS u(id, question, expires_at)
    WHERE j.id = ANY (ARRAY[u.id]) AND j.state = 'waiting' AND j.asks AND j.question IS NULL
    RETURNING j.id, j.state, j.waiting_for, j.attempt, j.revision, j.wanted_events, j.tenant, j.session
), told AS (
    INSERT INTO event_inbox (tenant, session, packed)
    SELECT tenant, session, string_agg(
        event_pack(4, wanted_events, id, now(), attempt, revision, state, waiting_for, NULL), ''::bytea)
    FROM changed GROUP BY tenant, session
)
SELECT id FROM changed
