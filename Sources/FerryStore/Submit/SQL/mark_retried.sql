-- Writes the first retry of finished jobs into their rows. A job that has one keeps it.
-- A failed job of a group is no open failure any more.
-- Locks: the finished jobs, in the order of their ids, then this connection's rows of job_group_counts.
-- $1 ids of retries that the same transaction may have inserted; those that it has not inserted are left out.
-- $2 text before the colon and the id of a changed job in the notification to other nodes, or null.
-- Each job is looked up alone, as in read_jobs.sql.
WITH first AS (
    SELECT DISTINCT ON (j.retry_of) j.retry_of AS source, j.id
    FROM unnest($1::uuid[]) AS u(id) CROSS JOIN LATERAL (
        SELECT id, retry_of FROM jobs WHERE id = u.id LIMIT 1
    ) j
    ORDER BY j.retry_of, j.id
), held AS MATERIALIZED (
    SELECT f.source, f.id FROM first f CROSS JOIN LATERAL (
        SELECT id FROM finished_jobs WHERE id = f.source LIMIT 1 FOR NO KEY UPDATE
    ) j
), marked AS (
    UPDATE finished_jobs j SET retried_by = h.id, revision = j.revision + 1
    FROM held h
    WHERE j.id = ANY (ARRAY[h.source]) AND j.retried_by IS NULL
    RETURNING j.id, CASE WHEN j.state = 'failed' AND j.job_group IS NOT NULL THEN (
        SELECT g.id FROM job_groups g WHERE g.id = j.job_group) END AS job_group
)
SELECT CASE WHEN $2::text IS NOT NULL THEN pg_notify('ferry', $2::text || ':' || id) END,
    CASE WHEN job_group IS NOT NULL THEN end_open_failure(job_group) END
FROM marked
