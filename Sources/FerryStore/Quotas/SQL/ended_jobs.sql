-- Returns which of the jobs $1 are not unfinished. Locks nothing.
SELECT u.id FROM unnest($1::uuid[]) AS u(id)
WHERE NOT EXISTS (SELECT FROM jobs j WHERE j.id = ANY (ARRAY[u.id]))
