-- Reads the limits of all tenants that have some, with the bytes that their attempts have moved since
-- midnight (UTC) if these are limited (count_transfers.sql). Locks nothing. Compared as rows, so that the
-- plan has the index that begins with the tenant.
SELECT t.tenant, t.unfinished_jobs, t.bytes_per_day, t.storage_bytes, t.requests_per_second,
    CASE WHEN t.bytes_per_day IS NOT NULL THEN (
        SELECT coalesce(sum(m.bytes), 0) FROM tenant_transfers m
        WHERE m.tenant = t.tenant AND (m.tenant, m.since)
            >= (t.tenant, date_trunc('day', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC')) ELSE 0 END::bigint
FROM tenant_limits t
WHERE num_nonnulls(t.unfinished_jobs, t.bytes_per_day, t.storage_bytes, t.requests_per_second) > 0
