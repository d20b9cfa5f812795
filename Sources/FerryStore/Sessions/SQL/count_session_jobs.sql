-- Counts the unfinished jobs of a session other than the default one by state. Locks nothing.
-- $1 tenant, $2 session, $3 maximum number of jobs to count.
SELECT state, count(*) FROM (
    SELECT state FROM jobs
    WHERE tenant = $1::text AND session = $2::text AND session <> 'default' LIMIT $3::integer
) j GROUP BY state
