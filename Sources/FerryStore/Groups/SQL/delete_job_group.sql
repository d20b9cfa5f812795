-- Deletes a finished group with its counts; its jobs stay. The transaction has locked it
-- (lock_job_group.sql). $1 tenant, $2 name. Returns a row if it was deleted.
WITH gone AS (
    DELETE FROM job_groups WHERE tenant = $1::text AND name = $2::text AND finished_at IS NOT NULL
    RETURNING id
), uncounted AS (
    DELETE FROM job_group_counts WHERE job_group = ANY (ARRAY(SELECT id FROM gone))
)
SELECT id FROM gone
