-- Says which of these jobs are there, finished or not. Locks nothing. $1 ids, $2 whose, or null: anybody's.
-- Joined as in read_jobs.sql.
SELECT j.id FROM jobs j WHERE j.id = ANY ($1::uuid[]) AND ($2::text IS NULL OR j.tenant = $2::text)
UNION ALL
SELECT j.id FROM unnest($1::uuid[]) AS u(id) JOIN finished_jobs j ON j.id = ANY (ARRAY[u.id])
WHERE $2::text IS NULL OR j.tenant = $2::text
