-- Reads jobs that wait for dependencies and have none left. Locks: these jobs, in the order of their ids.
-- $1 ids. Returns ids and specs.
SELECT id, spec FROM jobs
WHERE id = ANY ($1::uuid[]) AND waiting_for = 'dependency'
    AND NOT EXISTS (SELECT FROM job_dependencies d WHERE d.dependent = jobs.id)
ORDER BY id FOR UPDATE
