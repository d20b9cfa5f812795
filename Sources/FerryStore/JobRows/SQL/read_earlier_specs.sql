-- Reads the specs that jobs had at earlier revisions. Locks nothing.
-- One array element for each job and revision: $1 jobs, $2 revisions. Returns jobs, revisions and specs; no
-- row if none is kept.
SELECT u.job, u.revision, s.spec
FROM unnest($1::uuid[], $2::integer[]) AS u(job, revision) CROSS JOIN LATERAL (
    SELECT spec FROM earlier_specs WHERE job = u.job AND last_revision >= u.revision
    ORDER BY last_revision LIMIT 1
) s
