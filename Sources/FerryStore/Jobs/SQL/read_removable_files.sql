-- Returns for each job whether its partial files may be removed: `false` for unfinished jobs and for jobs
-- whose resume data is younger than $2 seconds. Unknown jobs are left out. Locks nothing.
-- $1 ids, $2 seconds that resume data is kept. Each job is looked up alone, as in read_jobs.sql.
SELECT j.id, false AS goes FROM unnest($1::uuid[]) AS u(id) CROSS JOIN LATERAL (
    SELECT id FROM jobs WHERE id = u.id LIMIT 1
) j
UNION ALL
SELECT j.id, j.resume_data IS NULL OR j.finished_at < now() - make_interval(secs => $2::double precision)
FROM unnest($1::uuid[]) AS u(id) CROSS JOIN LATERAL (
    SELECT id, resume_data, finished_at FROM finished_jobs WHERE id = u.id LIMIT 1
) j
