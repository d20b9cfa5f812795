-- Takes the locks of unique keys until the end of the transaction. Every transaction takes them in the same
-- order and before all others, so that no two of them wait for each other.
-- $1 tenants, $2 keys, one array element for each key.
SELECT count(pg_advisory_xact_lock(l.number)) FROM (
    SELECT DISTINCT unique_key_lock(u.tenant, u.key) AS number
    FROM unnest($1::text[], $2::text[]) AS u(tenant, key)
    ORDER BY number OFFSET 0
) l
