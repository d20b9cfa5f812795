-- Notes attempts that are about to send a request that must not be sent twice. If their node dies, their jobs
-- must not begin again. An attempt that the node does not hold any more is not noted. Locks: these jobs. The
-- conditions on the job allow the primary key alone, as in check_leases.sql.
-- $1 the node, $2 jobs, $3 their attempts. Returns the jobs that were noted.
UPDATE jobs j SET sent_attempt = u.attempt
FROM unnest($2::uuid[], $3::integer[]) AS u(id, attempt)
WHERE j.id = ANY (ARRAY[u.id]) AND j.attempt = u.attempt AND j.node IS NOT DISTINCT FROM $1::uuid
RETURNING j.id
