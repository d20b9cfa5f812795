-- Queues waiting jobs that are due, unless a client is to be asked first. Locks: due rows that no other
-- transaction has locked, then this connection's row of job_counts.
-- $1 how many at most. Returns id, claim queue with tenant, session and origin (empty: a wide one), its only
-- node or null, its path (empty: any), urgency.
WITH changed AS (
    UPDATE jobs j SET
        state = 'queued', queued_at = now(), waiting_for = NULL, next_attempt_at = NULL,
        revision = j.revision + 1
    WHERE j.id = ANY (ARRAY(
        SELECT id FROM jobs WHERE state = 'waiting' AND next_attempt_at <= now() AND NOT asks
        ORDER BY next_attempt_at LIMIT $1::integer
        FOR UPDATE SKIP LOCKED))
    RETURNING j.id, j.lot, j.tenant, j.session, j.origin, j.home, j.urgency
), counted AS (
    INSERT INTO job_counts AS c (shard, waiting, queued)
    SELECT current_setting('ferry.shard'), -count(*), count(*) FROM changed HAVING count(*) > 0
    ON CONFLICT (shard) DO UPDATE SET
        waiting = c.waiting + excluded.waiting, queued = c.queued + excluded.queued
)
SELECT id, lot, tenant, session, CASE WHEN lot < 0 THEN origin ELSE '' END, home,
    CASE WHEN lot < 0 THEN coalesce((
        SELECT l.path FROM lots l WHERE l.id = ANY (ARRAY[c.lot])), '') ELSE '' END,
    urgency
FROM changed c
