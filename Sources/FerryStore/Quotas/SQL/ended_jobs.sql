-- Returns which of the jobs $1 are not unfinished, and whether each is finished: another one was deleted, or
-- is not yet there. Locks nothing. Each finished job is looked up alone, as in read_jobs.sql.
SELECT u.id, f.id IS NOT NULL FROM unnest($1::uuid[]) AS u(id)
LEFT JOIN LATERAL (SELECT id FROM finished_jobs WHERE id = u.id LIMIT 1) f ON true
WHERE NOT EXISTS (SELECT FROM jobs j WHERE j.id = ANY (ARRAY[u.id]))
