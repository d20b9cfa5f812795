-- Writes which uploads jobs send that were inserted in the same transaction. Leaves out jobs that were not
-- inserted. Locks: the new rows. $1 uploads, $2 jobs.
INSERT INTO upload_jobs (upload, job)
SELECT u.upload, u.job FROM unnest($1::uuid[], $2::uuid[]) AS u(upload, job)
JOIN jobs j ON j.id = ANY (ARRAY[u.job])
ON CONFLICT DO NOTHING
