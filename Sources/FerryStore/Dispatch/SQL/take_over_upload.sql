-- Takes over the upload of another job, whose resume data a job has: that one's upload is no longer removed
-- when the resume data expires. The caller has noted the upload in the same transaction (mark_requests.sql).
-- An attempt that the node does not hold any more takes nothing. Locks: the row of abandoned_uploads. The
-- conditions on the job allow the primary key alone, as in check_leases.sql.
-- $1 the node, $2 the job, $3 its attempt, $4 the other job.
DELETE FROM abandoned_uploads
WHERE job = $4::uuid AND (
    SELECT true FROM jobs
    WHERE id = $2::uuid AND attempt = $3::integer AND node IS NOT DISTINCT FROM $1::uuid)
