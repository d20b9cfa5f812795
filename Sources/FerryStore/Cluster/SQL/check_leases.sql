-- Reads which of these jobs a node holds. Columns as held_jobs.sql, which also reads the dead rows of all
-- former leases of the node while any transaction keeps an old snapshot. These conditions allow the primary
-- key alone. Locks nothing. $1 the node, $2 the jobs.
SELECT j.id, j.attempt, j.revision, j.cancel_requested, j.keeps_bytes, j.suspend_requested
FROM unnest($2::uuid[]) AS u(id) JOIN jobs j ON j.id = ANY (ARRAY[u.id])
WHERE j.node IS NOT DISTINCT FROM $1::uuid
