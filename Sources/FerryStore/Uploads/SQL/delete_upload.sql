-- Deletes an upload, and tells the jobs that wait for it. Locks: the row. $1 tenant, $2 id, $3 whether also
-- if an unfinished job needs it. Returns whether it was deleted, whether the tenant had it, whether jobs may
-- wait for it, and the key of its object or null.
WITH gone AS (
    DELETE FROM uploads
    WHERE id = $2::uuid AND (tenant = $1::text) IS TRUE AND ($3::boolean OR NOT is_upload_needed(id))
    RETURNING id, is_awaited AND NOT is_complete AS is_awaited, object
), unused AS (
    DELETE FROM upload_jobs WHERE upload = ANY (ARRAY(SELECT id FROM gone))
), told AS (
    INSERT INTO dependency_outbox (job, state, group_round) SELECT id, 'failed', -1 FROM gone WHERE is_awaited
)
SELECT EXISTS (SELECT FROM gone), EXISTS (
    SELECT FROM uploads WHERE id = $2::uuid AND (tenant = $1::text) IS TRUE),
    EXISTS (SELECT FROM gone WHERE is_awaited), (SELECT object FROM gone)
