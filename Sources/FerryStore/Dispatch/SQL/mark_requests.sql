-- Notes attempts that are about to send a request that must not be sent twice: if their node dies, their jobs
-- must not begin again. Notes also attempts whose server keeps the upload: any later attempt continues it, so
-- that their jobs may begin again. An attempt that the node does not hold any more is not noted. Locks: these
-- jobs. The conditions on the job allow the primary key alone, as in check_leases.sql.
-- $1 the node, $2 jobs, $3 their attempts, $4 the uploads (NextRequest, sealed), empty if the server keeps
-- none any more, or null: as it is. Returns the jobs that were noted.
UPDATE jobs j SET
    sent_attempt = CASE WHEN coalesce(u.next_request, '') = '' THEN u.attempt END,
    next_request = nullif(coalesce(u.next_request, j.next_request), '')
FROM unnest($2::uuid[], $3::integer[], $4::bytea[]) AS u(id, attempt, next_request)
WHERE j.id = ANY (ARRAY[u.id]) AND j.attempt = u.attempt AND j.node IS NOT DISTINCT FROM $1::uuid
RETURNING j.id
