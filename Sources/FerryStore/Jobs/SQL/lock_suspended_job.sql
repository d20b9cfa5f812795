-- Reads what a suspended job waits for when it is resumed. Locks: the job.
-- $1 id, $2 expected revision. Returns whether it needs a confirmation before it begins, and whether it has
-- dependencies; no row if the job has changed meanwhile.
SELECT asks, EXISTS (SELECT FROM job_dependencies d WHERE d.dependent = jobs.id)
FROM jobs WHERE id = $1::uuid AND revision = $2::integer AND state = 'suspended'
FOR UPDATE
