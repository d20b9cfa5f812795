-- Processes rows of dependency_outbox and removes the dependencies that have ended. Run it under its advisory
-- lock: two transactions that remove the last two dependencies of a job at once would each see one remaining.
-- Locks: the deleted rows of dependency_outbox and job_dependencies.
-- $1 maximum rows of dependency_outbox, $2 maximum dependents of ended jobs. If that maximum is reached, the
-- rows stay for the next transaction.
-- Returns one row for each dependent: the number of rows processed, the dependent (null if there is none),
-- one of its dependencies that did not succeed, the state of that one, and its round if it is a group, 0 if
-- it is a job, -1 if it is an upload; null if all succeeded. Last, the name of that group, or null. Groups
-- end by rows of the outbox with their outcome only.
WITH told AS (
    SELECT position, job, state, group_round FROM dependency_outbox ORDER BY position LIMIT $1::integer
), reached AS (
    SELECT d.dependency, d.dependent, t.state::text AS state, coalesce(d.group_round, 0) AS round
    FROM told t JOIN job_dependencies d ON d.dependency = ANY (ARRAY[t.job])
    WHERE t.state IS NOT NULL AND (d.group_round IS NULL OR d.group_round <= t.group_round)
    LIMIT $2::integer
), taken AS (
    DELETE FROM dependency_outbox WHERE position = ANY (ARRAY(
        SELECT position FROM told
        WHERE state IS NULL OR (SELECT count(*) FROM reached) < $2::integer))
    RETURNING job, state
), ended AS (
    SELECT dependency, dependent, state, round FROM reached
    UNION ALL
    -- Subqueries, which the planner does not reorder.
    SELECT d.dependency, d.dependent, coalesce(
        (SELECT f.state::text FROM finished_jobs f WHERE f.id = d.dependency), 'deleted'), 0
    FROM taken n JOIN job_dependencies d ON d.dependent = ANY (ARRAY[n.job])
    WHERE n.state IS NULL AND d.group_round IS NULL
        AND (SELECT true FROM jobs j WHERE j.id = d.dependency) IS NULL
    UNION ALL
    SELECT s.dependency, s.dependent, CASE WHEN s.is_complete THEN 'succeeded' ELSE 'deleted' END, -1 FROM (
        SELECT d.dependency, d.dependent,
            (SELECT u.is_complete FROM uploads u WHERE u.id = d.dependency) AS is_complete
        FROM taken n JOIN job_dependencies d ON d.dependent = ANY (ARRAY[n.job])
        WHERE n.state IS NULL AND d.group_round = -1) AS s
    WHERE s.is_complete IS NOT FALSE
), struck AS (
    DELETE FROM job_dependencies d USING ended e
    WHERE d.dependency = ANY (ARRAY[e.dependency]) AND d.dependent = e.dependent
), touched AS (
    SELECT dependent,
        (array_agg(dependency ORDER BY dependency) FILTER (WHERE state <> 'succeeded'))[1] AS failed,
        (array_agg(state ORDER BY dependency) FILTER (WHERE state <> 'succeeded'))[1] AS failed_state,
        (array_agg(round ORDER BY dependency) FILTER (WHERE state <> 'succeeded'))[1] AS round
    FROM ended GROUP BY dependent
    UNION ALL
    SELECT n.job, NULL, NULL, NULL FROM taken n
    WHERE n.state IS NULL AND NOT EXISTS (SELECT FROM ended e WHERE e.dependent = n.job)
)
SELECT (SELECT count(*) FROM told)::integer, t.dependent, t.failed, t.failed_state, t.round,
    CASE WHEN t.round > 0 THEN (SELECT g.name FROM job_groups g WHERE g.id = t.failed) END
FROM (VALUES (1)) AS always LEFT JOIN touched t ON true
