-- Closes a group, unless it is closed. The transaction has locked it (lock_job_group.sql).
-- $1 tenant, $2 name, $3 now. Returns a row if there is such a group.
SELECT close_job_group(id, $3::timestamptz) FROM job_groups WHERE tenant = $1::text AND name = $2::text
