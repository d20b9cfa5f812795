-- Takes news of jobs that others depend on, or that depend on others, and strikes out the dependencies that
-- have ended. To be run under its advisory lock, so that the last two of a job do not miss each other. Locks:
-- the news and the dependencies. $1 how many news at most, $2 how many dependents of what has ended: where
-- there are as many, its news stay for the next round. Returns a row for each dependent: how many news there
-- were, the dependent (null: none), and one of its dependencies that did not succeed with its state, or null.
WITH told AS (
    SELECT position, job, state FROM dependency_news ORDER BY position LIMIT $1::integer
), reached AS (
    SELECT d.dependency, d.dependent, t.state::text AS state
    FROM told t JOIN job_dependencies d ON d.dependency = ANY (ARRAY[t.job])
    WHERE t.state IS NOT NULL
    LIMIT $2::integer
), news AS (
    DELETE FROM dependency_news WHERE position = ANY (ARRAY(
        SELECT position FROM told
        WHERE state IS NULL OR (SELECT count(*) FROM reached) < $2::integer))
    RETURNING job, state
), ended AS (
    SELECT dependency, dependent, state FROM reached
    UNION ALL
    SELECT d.dependency, d.dependent, coalesce(f.state::text, 'deleted')
    FROM news n JOIN job_dependencies d ON d.dependent = ANY (ARRAY[n.job])
    LEFT JOIN finished_jobs f ON f.id = d.dependency
    WHERE n.state IS NULL AND NOT EXISTS (SELECT FROM jobs j WHERE j.id = d.dependency)
), struck AS (
    DELETE FROM job_dependencies d USING ended e
    WHERE d.dependency = ANY (ARRAY[e.dependency]) AND d.dependent = e.dependent
), touched AS (
    SELECT dependent,
        (array_agg(dependency ORDER BY dependency) FILTER (WHERE state <> 'succeeded'))[1] AS failed,
        (array_agg(state ORDER BY dependency) FILTER (WHERE state <> 'succeeded'))[1] AS failed_state
    FROM ended GROUP BY dependent
    UNION ALL
    SELECT n.job, NULL, NULL FROM news n
    WHERE n.state IS NULL AND NOT EXISTS (SELECT FROM ended e WHERE e.dependent = n.job)
)
SELECT (SELECT count(*) FROM told)::integer, t.dependent, t.failed, t.failed_state
FROM (VALUES (1)) AS always LEFT JOIN touched t ON true
