-- Finds those among objects and incomplete multipart uploads of the content store that their owner, a job or
-- a staged upload, does not need. An unfinished job needs all of its own, a finished one the object whose key
-- its result or response has. An upload whose bytes are not yet in an object needs all of its own, any other
-- one that object. Locks nothing. In one snapshot, so that a job that ends meanwhile is seen once.
-- $1 jobs, null for those of uploads; $2 uploads, null for those of jobs; $3 keys, null for an incomplete
-- multipart upload. Each owner is looked up alone, as in read_jobs.sql. Returns the numbers of those that are
-- not needed, from 1 on.
SELECT u.number
FROM unnest($1::uuid[], $2::uuid[], $3::text[]) WITH ORDINALITY AS u(job, upload, key, number)
LEFT JOIN LATERAL (SELECT id FROM jobs WHERE id = u.job LIMIT 1) j ON true
LEFT JOIN LATERAL (
    -- As in JSON. Keys have no characters that are escaped there.
    SELECT strpos(coalesce(result, ''), '"' || u.key || '"') > 0
        OR strpos(coalesce(response, ''), '"' || u.key || '"') > 0 AS needs
    FROM finished_jobs WHERE id = u.job LIMIT 1
) f ON true
LEFT JOIN LATERAL (
    SELECT object IS NULL OR object = u.key AS needs FROM uploads WHERE id = u.upload LIMIT 1
) s ON true
WHERE j.id IS NULL AND f.needs IS NOT TRUE AND s.needs IS NOT TRUE
