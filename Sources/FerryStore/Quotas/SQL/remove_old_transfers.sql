-- Removes the sums of transfers that are older than $1 seconds, at most $2 of them. Locks: those rows; skips
-- rows that another transaction has locked. Returns their number.
WITH gone AS (
    DELETE FROM tenant_transfers WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM tenant_transfers
        WHERE since < now() - make_interval(secs => $1::double precision)
        ORDER BY since LIMIT $2::integer FOR UPDATE SKIP LOCKED))
    RETURNING tenant
)
SELECT count(*) FROM gone
