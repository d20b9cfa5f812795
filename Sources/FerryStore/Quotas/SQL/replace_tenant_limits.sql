-- Writes the limits of a tenant if they are still those that were read. Locks: the row.
-- $1 tenant, $2 unfinished jobs, $3 bytes of a day, $4 stored bytes, $5 requests per second, $6 to $9 the
-- same as they were read; null: no limit. Returns the tenant; no row if the limits have changed meanwhile.
INSERT INTO tenant_limits AS t (tenant, unfinished_jobs, bytes_per_day, storage_bytes, requests_per_second)
VALUES ($1::text, $2::bigint, $3::bigint, $4::bigint, $5::bigint)
ON CONFLICT (tenant) DO UPDATE SET
    unfinished_jobs = excluded.unfinished_jobs, bytes_per_day = excluded.bytes_per_day,
    storage_bytes = excluded.storage_bytes, requests_per_second = excluded.requests_per_second
WHERE t.unfinished_jobs IS NOT DISTINCT FROM $6::bigint AND t.bytes_per_day IS NOT DISTINCT FROM $7::bigint
    AND t.storage_bytes IS NOT DISTINCT FROM $8::bigint
    AND t.requests_per_second IS NOT DISTINCT FROM $9::bigint
RETURNING tenant
