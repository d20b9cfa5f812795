-- Processes rows of dependency_outbox and removes the dependencies that have ended. Run it under its advisory
-- lock: two transactions that remove the last two dependencies of a job at once would each see one remaining.
-- Locks: the deleted rows of dependency_outbox and job_dependencies.
-- $1 maximum rows of dependency_outbox, $2 maximum dependents of ended jobs. If that maximum is reached, the
-- rows stay for the next transaction.
-- Returns one row for each dependent: the number of rows processed, the dependent (null if there is none),
-- one of its dependencies that did not succeed, and the state of that one; both null if all succeeded.
WITH told AS (
    SELECT position, job, state FROM dependency_outbox ORDER BY position LIMIT $1::integer
), reached AS (
    SELECT d.dependency, d.dependent, t.state::text AS state
    FROM told t JOIN job_dependencies d ON d.dependency = ANY (ARRAY[t.job])
    WHERE t.state IS NOT NULL
    LIMIT $2::integer
), taken AS (
    DELETE FROM dependency_outbox WHERE position = ANY (ARRAY(
        SELECT position FROM told
        WHERE state IS NULL OR (SELECT count(*) FROM reached) < $2::integer))
    RETURNING job, state
), ended AS (
    SELECT dependency, dependent, state FROM reached
    UNION ALL
    -- Subqueries, which the planner does not reorder.
    SELECT d.dependency, d.dependent, coalesce(
        (SELECT f.state::text FROM finished_jobs f WHERE f.id = d.dependency), 'deleted')
    FROM taken n JOIN job_dependencies d ON d.dependent = ANY (ARRAY[n.job])
    WHERE n.state IS NULL AND (SELECT true FROM jobs j WHERE j.id = d.dependency) IS NULL
), struck AS (
    DELETE FROM job_dependencies d USING ended e
    WHERE d.dependency = ANY (ARRAY[e.dependency]) AND d.dependent = e.dependent
), touched AS (
    SELECT dependent,
        (array_agg(dependency ORDER BY dependency) FILTER (WHERE state <> 'succeeded'))[1] AS failed,
        (array_agg(state ORDER BY dependency) FILTER (WHERE state <> 'succeeded'))[1] AS failed_state
    FROM ended GROUP BY dependent
    UNION ALL
    SELECT n.job, NULL, NULL FROM taken n
    WHERE n.state IS NULL AND NOT EXISTS (SELECT FROM ended e WHERE e.dependent = n.job)
)
SELECT (SELECT count(*) FROM told)::integer, t.dependent, t.failed, t.failed_state
FROM (VALUES (1)) AS always LEFT JOIN touched t ON true
