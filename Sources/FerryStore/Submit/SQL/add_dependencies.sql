-- Writes what jobs depend on that were inserted in the same transaction. Also writes dependency_outbox, so
-- that they are looked at after the commit: a dependency may have ended meanwhile. Leaves out jobs that were
-- not inserted. Locks: the new rows. One array element for each dependency: $1 dependents, $2 what they
-- depend on. $3 those of $2 that were inserted as well.
WITH u AS (
    SELECT u.dependent, u.dependency FROM unnest($1::uuid[], $2::uuid[]) AS u(dependent, dependency)
    JOIN jobs j ON j.id = ANY (ARRAY[u.dependent])
), flagged AS (
    UPDATE jobs SET has_dependents = true WHERE id = ANY ($3::uuid[])
), kept AS (
    INSERT INTO job_dependencies (dependency, dependent) SELECT dependency, dependent FROM u
)
INSERT INTO dependency_outbox (job) SELECT DISTINCT dependent FROM u
