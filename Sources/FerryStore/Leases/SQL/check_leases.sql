-- Reads which of these jobs a node holds: columns as held_jobs.sql, which steps over everything that the
-- node has held while somebody keeps a snapshot open. These conditions leave the primary key alone to find
-- the rows by. Locks nothing. $1 the node, $2 the jobs.
SELECT j.id, j.attempt, j.revision, j.cancel_requested, j.keeps_bytes, j.suspend_requested
FROM unnest($2::uuid[]) AS u(id) JOIN jobs j ON j.id = ANY (ARRAY[u.id])
WHERE (j.state = 'running') IS TRUE AND j.node IS NOT DISTINCT FROM $1::uuid
