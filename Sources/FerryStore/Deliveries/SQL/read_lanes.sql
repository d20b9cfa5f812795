-- The lanes of deliveries to the webhooks of jobs, as migration 0007 makes them. Locks nothing. One array
-- element a receiver: $1 tenants, $2 URLs. Returns the lanes in that order.
SELECT md5(u.tenant || ' ' || substring(u.url from '^[^/]*//[^/?#]*'))::uuid
FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS u(tenant, url, number)
ORDER BY u.number
