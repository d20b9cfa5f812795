-- Keeps what jobs that were inserted in the same transaction depend on, and has them looked at after it: what
-- they depend on may have ended meanwhile. Jobs that were not inserted are left out. Locks: the new rows. One
-- array element a dependency: $1 dependents, $2 what they depend on. $3 those of $2 that were inserted as
-- well.
WITH u AS (
    SELECT u.dependent, u.dependency FROM unnest($1::uuid[], $2::uuid[]) AS u(dependent, dependency)
    JOIN jobs j ON j.id = ANY (ARRAY[u.dependent])
), flagged AS (
    UPDATE jobs SET has_dependents = true WHERE id = ANY ($3::uuid[])
), kept AS (
    INSERT INTO job_dependencies (dependency, dependent) SELECT dependency, dependent FROM u
)
INSERT INTO dependency_news (job) SELECT DISTINCT dependent FROM u
