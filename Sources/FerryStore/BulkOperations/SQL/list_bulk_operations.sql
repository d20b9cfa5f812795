-- Reads a page of a tenant's bulk operations, newest first. Locks nothing. Compared as in list_jobs.sql.
-- $1 tenant, $2 upper bound of ids (exclusive), $3 maximum number. Columns as in read_bulk_operation.sql.
SELECT id, tenant, command::text, state::text, filter, cardinality(ids), examined, changed, reasons,
    created_at, finished_at
FROM bulk_operations WHERE tenant = ANY (ARRAY[$1::text]) AND id < $2::uuid
ORDER BY tenant DESC, id DESC LIMIT $3::integer
