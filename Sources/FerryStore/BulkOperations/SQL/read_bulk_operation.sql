-- Reads a bulk operation. Locks nothing. $1 id, $2 tenant.
-- Returns id, tenant, command, state, filter or null, number of ids or null, jobs looked at, jobs changed,
-- other jobs by reason (JSON), time of the request, time of the end or null.
SELECT id, tenant, command::text, state::text, filter, cardinality(ids), examined, changed, reasons,
    created_at, finished_at
FROM bulk_operations WHERE id = $1::uuid AND tenant = $2::text
