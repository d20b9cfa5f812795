-- Sums the bytes that are kept for the finished jobs of tenants: managed files, bodies, and what other jobs
-- may continue. Reads all finished jobs of these tenants. Locks nothing. $1 tenants. Returns for each its
-- place, from 1 on, and the sum.
SELECT t.place, (
    SELECT coalesce(sum(f.stored_bytes), 0)::bigint FROM finished_jobs f WHERE f.tenant = t.tenant)
FROM unnest($1::text[]) WITH ORDINALITY AS t(tenant, place)
