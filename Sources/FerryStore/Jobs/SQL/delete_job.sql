-- Deletes a terminal job with its earlier specs, its accepted and given up deliveries, their tries and its
-- row of unacknowledged_jobs. Pending deliveries stay and are sent: they do not need the job.
-- Locks: its row of unacknowledged_jobs, then the job, in the order of acknowledge_jobs.sql; then its
-- deliveries.
-- $1 id, $2 expected revision, $3 payload of the notification to other nodes, or null.
-- Returns the id; no row if the job has changed meanwhile or is gone.
WITH held AS MATERIALIZED (
    SELECT job FROM unacknowledged_jobs WHERE job = $1::uuid FOR UPDATE
), gone AS (
    DELETE FROM finished_jobs
    WHERE id = $1::uuid AND revision = $2::integer AND (SELECT count(*) FROM held) <= 1
    RETURNING id
), released AS (
    DELETE FROM unacknowledged_jobs u USING gone g WHERE u.job = ANY (ARRAY[g.id])
), earlier AS (
    DELETE FROM earlier_specs s USING gone g WHERE s.job = ANY (ARRAY[g.id])
), told AS (
    DELETE FROM deliveries WHERE job IN (SELECT id FROM gone) AND state <> 'pending' RETURNING id
), tries AS (
    DELETE FROM delivery_tries WHERE delivery IN (SELECT id FROM told)
)
SELECT id, CASE WHEN $3::text IS NOT NULL THEN pg_notify('ferry', $3::text) END FROM gone
