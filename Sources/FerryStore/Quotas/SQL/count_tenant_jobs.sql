-- Counts the unfinished jobs of tenants. Locks nothing. $1 tenants. Returns for each its place, from 1 on,
-- and the number.
SELECT t.place, (SELECT count(*) FROM jobs j WHERE j.tenant = t.tenant)
FROM unnest($1::text[]) WITH ORDINALITY AS t(tenant, place)
