-- Sums the bytes that are kept for tenants: managed files, bodies, and what other jobs may continue, of
-- finished jobs, and staged uploads. Reads all finished jobs and uploads of these tenants. Locks nothing.
-- $1 tenants. Returns for each its place, from 1 on, and the sum.
SELECT t.place, (
    SELECT coalesce(sum(f.stored_bytes), 0) FROM finished_jobs f WHERE f.tenant = t.tenant)::bigint + (
    SELECT coalesce(sum(u.byte_offset), 0) FROM uploads u WHERE u.tenant = t.tenant)::bigint
FROM unnest($1::text[]) WITH ORDINALITY AS t(tenant, place)
