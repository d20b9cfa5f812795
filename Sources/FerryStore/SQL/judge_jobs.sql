-- Says of jobs whether what they have left in directories can go: not of unfinished ones, nor of those whose
-- resume data is younger than $2 seconds. Locks nothing. $1 ids. Unknown jobs are left out.
SELECT id, false AS goes FROM jobs WHERE id = ANY ($1::uuid[])
UNION ALL
SELECT j.id, j.resume_data IS NULL OR j.finished_at < now() - make_interval(secs => $2::double precision)
FROM unnest($1::uuid[]) AS u(id) JOIN finished_jobs j ON j.id = ANY (ARRAY[u.id])
