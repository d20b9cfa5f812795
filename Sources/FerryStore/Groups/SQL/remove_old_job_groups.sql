-- Removes groups that finished more than $1 seconds ago, at most $2 of them, with their counts. Locks: those
-- groups, so that no retry joins; skips groups and rows that another transaction has locked. Returns their
-- number.
WITH old AS MATERIALIZED (
    SELECT id, tenant, name FROM job_groups
    WHERE finished_at < now() - make_interval(secs => $1::double precision)
    ORDER BY finished_at LIMIT $2::integer FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM job_groups WHERE id = ANY (ARRAY(
        SELECT id FROM old WHERE pg_try_advisory_xact_lock(job_group_lock(tenant, name))))
    RETURNING id
), uncounted AS (
    DELETE FROM job_group_counts WHERE job_group = ANY (ARRAY(SELECT id FROM gone))
)
SELECT count(*) FROM gone
