-- Writes what jobs depend on that were inserted in the same transaction. Also writes dependency_outbox, so
-- that they are looked at after the commit: a dependency may have ended meanwhile. The outcome of a group
-- that is finished is written at once. Leaves out jobs that were not inserted. Locks: the new rows. The
-- transaction holds the locks of the groups (join_job_groups).
-- One array element for each dependency on a job: $1 dependents, $2 what they depend on. $3 those of $2 that
-- were inserted as well. One array element for each dependency on a group: $4 dependents, $5 tenants, $6
-- names. One for each dependency on an upload: $7 dependents, $8 uploads.
WITH u AS (
    SELECT u.dependent, u.dependency FROM unnest($1::uuid[], $2::uuid[]) AS u(dependent, dependency)
    JOIN jobs j ON j.id = ANY (ARRAY[u.dependent])
), grouped AS (
    SELECT u.dependent, g.id, g.round, g.finished_at IS NOT NULL AS is_finished
    FROM unnest($4::uuid[], $5::text[], $6::text[]) AS u(dependent, tenant, name)
    JOIN jobs j ON j.id = ANY (ARRAY[u.dependent])
    CROSS JOIN LATERAL (
        SELECT id, round, finished_at FROM job_groups
        WHERE tenant = u.tenant AND name = u.name LIMIT 1) AS g
), staged AS (
    SELECT u.dependent, u.upload FROM unnest($7::uuid[], $8::uuid[]) AS u(dependent, upload)
    JOIN jobs j ON j.id = ANY (ARRAY[u.dependent])
), flagged AS (
    UPDATE jobs SET has_dependents = true WHERE id = ANY ($3::uuid[])
), kept AS (
    INSERT INTO job_dependencies (dependency, dependent, group_round)
    SELECT dependency, dependent, NULL FROM u UNION ALL SELECT id, dependent, round FROM grouped
    UNION ALL SELECT upload, dependent, -1 FROM staged
)
INSERT INTO dependency_outbox (job, state, group_round)
SELECT DISTINCT dependent, NULL::job_state, NULL::integer FROM (
    SELECT dependent FROM u UNION ALL SELECT dependent FROM staged) AS d
UNION ALL
SELECT id, job_group_outcome(id), round FROM (SELECT DISTINCT id, round FROM grouped WHERE is_finished) AS f
