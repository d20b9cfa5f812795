-- Computes the receiver queues of job webhooks, as the column `receiver` is defined. Locks nothing.
-- One array element a receiver: $1 tenants, $2 URLs. Returns the queues in this order.
SELECT md5(u.tenant || ' ' || substring(u.url from '^[^/]*//[^/?#]*'))::uuid
FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS u(tenant, url, number)
ORDER BY u.number
