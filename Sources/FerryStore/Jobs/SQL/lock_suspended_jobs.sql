-- Reads what suspended jobs wait for when they are resumed. Locks: the jobs.
-- One array element for each job: $1 ids, $2 expected revisions. Returns id, whether it needs a confirmation
-- before it begins, and whether it has dependencies; no row for a job that has changed meanwhile. Joined as
-- finish_jobs.sql; the state is compared as a text, so that no partial index serves the statement.
SELECT j.id, j.asks, EXISTS (SELECT FROM job_dependencies d WHERE d.dependent = j.id)
FROM unnest($1::uuid[], $2::integer[]) AS u(id, revision)
JOIN jobs j ON j.id = ANY (ARRAY[u.id]) AND j.revision = u.revision AND j.state::text = 'suspended'
FOR UPDATE OF j
