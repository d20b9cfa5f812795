-- Adds the bytes that attempts have moved to the sums of their tenants, in the transaction of the attempts'
-- results and before these: a result that is written twice, and one whose lease was lost, adds nothing.
-- Locks: rows of tenant_transfers that only this node writes.
-- $1 node. One array element for each attempt: $2 jobs, $3 attempts, $4 tenants, $5 bytes of bodies, received
-- and sent. Joined as finish_jobs.sql; the condition on the node is one that no index serves.
INSERT INTO tenant_transfers AS t (tenant, since, node, bytes)
SELECT u.tenant, to_timestamp(floor(extract(epoch FROM now()) / 600) * 600), $1::uuid, sum(u.bytes)::bigint
FROM unnest($2::uuid[], $3::integer[], $4::text[], $5::bigint[]) AS u(id, attempt, tenant, bytes)
WHERE EXISTS (
    SELECT FROM jobs j
    WHERE j.id = ANY (ARRAY[u.id]) AND j.attempt = u.attempt AND j.node IS NOT DISTINCT FROM $1::uuid)
GROUP BY u.tenant
ON CONFLICT (tenant, since, node) DO UPDATE SET bytes = t.bytes + excluded.bytes
