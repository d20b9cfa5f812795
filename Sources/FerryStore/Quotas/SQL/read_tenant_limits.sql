-- Reads the limits of a tenant. Locks nothing. $1 tenant. No row if none were set.
SELECT unfinished_jobs, bytes_per_day, storage_bytes, requests_per_second
FROM tenant_limits WHERE tenant = $1::text
