-- Resumes a suspended job: queues it, or lets it wait for its dependencies, its begin date or, if it is
-- discretionary, for its start. Takes back a suspension that was requested and not carried out yet. Notifies
-- the nodes of queued work.
-- Locks: the job, then this connection's row of job_counts.
-- $1 id, $2 expected revision, $3 begin date or latest start, or null if that is in the past, $4 earliest
-- start of a discretionary job, null for other jobs, $5 expected bytes or null.
-- Returns the id; no row if the job has changed meanwhile.
WITH found AS (
    SELECT id, state, asks, EXISTS (SELECT FROM job_dependencies d WHERE d.dependent = jobs.id) AS depends
    FROM jobs
    WHERE id = $1::uuid AND revision = $2::integer
        AND (state = 'suspended' OR (state = 'running' AND suspend_requested))
    FOR UPDATE
), changed AS (
    UPDATE jobs j SET
        state = CASE WHEN found.state = 'running' THEN 'running'
            WHEN $3::timestamptz IS NULL AND NOT found.depends AND NOT found.asks THEN 'queued'
            ELSE 'waiting' END::job_state,
        waiting_for = CASE WHEN found.state = 'running' THEN NULL WHEN found.depends THEN 'dependency'
            WHEN found.asks THEN 'begin_date' WHEN $3::timestamptz IS NULL THEN NULL
            WHEN $4::timestamptz IS NULL THEN 'begin_date' ELSE 'discretionary' END::waiting_for,
        discretionary_from = coalesce($4::timestamptz, j.discretionary_from),
        discretionary_bytes = CASE WHEN $4::timestamptz IS NULL THEN j.discretionary_bytes
            ELSE $5::bigint END,
        next_attempt_at = CASE WHEN found.state = 'suspended' AND NOT found.depends
            THEN coalesce($3::timestamptz, CASE WHEN found.asks THEN now() END) END,
        queued_at = now(), suspend_requested = false,
        revision = j.revision + CASE WHEN found.state = 'suspended' THEN 1 ELSE 0 END
    FROM found WHERE j.id = found.id
    RETURNING j.id, j.state, j.waiting_for
), looked AS (
    INSERT INTO dependency_news (job) SELECT id FROM changed WHERE waiting_for = 'dependency'
), counted AS (
    INSERT INTO job_counts AS c (shard, waiting, queued, suspended)
    SELECT current_setting('ferry.shard'), count(*) FILTER (WHERE state = 'waiting'),
        count(*) FILTER (WHERE state = 'queued'), -count(*)
    FROM changed WHERE state <> 'running' HAVING count(*) > 0
    ON CONFLICT (shard) DO UPDATE SET
        waiting = c.waiting + excluded.waiting, queued = c.queued + excluded.queued,
        suspended = c.suspended + excluded.suspended
)
SELECT id, pg_notify('ferry', 'work') FROM changed
