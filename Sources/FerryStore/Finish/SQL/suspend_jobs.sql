-- Suspends jobs whose attempt was stopped for it. A job that was resumed or cancelled meanwhile is queued.
-- Fenced and joined as finish_jobs.sql. Locks: the jobs, then this connection's row of job_counts.
-- One array element for each job: $1 ids, $2 attempts, $3 revisions, $4 the attempts that ended, kept as in
-- retry_jobs.sql, or null if none had begun: then the bytes of earlier ones are still there. $5 whether bytes
-- were left. Returns the ids of the changed jobs.
WITH changed AS (
    UPDATE jobs j SET
        state = CASE WHEN j.suspend_requested AND NOT j.cancel_requested THEN 'suspended'
            ELSE 'queued' END::job_state,
        queued_at = now(), suspend_requested = false, node = NULL,
        revision = j.revision + 1,
        has_bytes = u.has_bytes OR j.has_bytes AND u.ended IS NULL,
        attempts = CASE WHEN u.ended IS NULL THEN j.attempts
            ELSE (array_append(j.attempts, u.ended))[greatest(1, cardinality(j.attempts) - 47):] END
    FROM unnest($1::uuid[], $2::integer[], $3::integer[], $4::bytea[], $5::boolean[])
        AS u(id, attempt, revision, ended, has_bytes)
    WHERE j.id = ANY (ARRAY[u.id]) AND j.attempt = u.attempt
        AND j.state NOT IN ('waiting', 'queued', 'suspended')
    RETURNING j.id, j.state
), counted AS (
    INSERT INTO job_counts AS c (shard, running, queued, suspended)
    SELECT current_setting('ferry.shard'), -count(*), count(*) FILTER (WHERE state = 'queued'),
        count(*) FILTER (WHERE state = 'suspended')
    FROM changed HAVING count(*) > 0
    ON CONFLICT (shard) DO UPDATE SET
        running = c.running + excluded.running, queued = c.queued + excluded.queued,
        suspended = c.suspended + excluded.suspended
)
SELECT id FROM changed
