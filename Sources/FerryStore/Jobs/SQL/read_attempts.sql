-- Reads the ended attempts of a job, finished or not, with the columns that are needed to show them. Locks
-- nothing. $1 id, $2 tenant.
SELECT j.state, j.attempt, j.node, j.started_at, j.spec, j.attempts, NULL::bytea AS last_attempt
FROM jobs j WHERE j.id = $1::uuid AND j.tenant = $2::text
UNION ALL
SELECT j.state, j.attempt, j.node, j.started_at, j.spec, j.attempts, j.last_attempt
FROM finished_jobs j WHERE j.id = $1::uuid AND j.tenant = $2::text
