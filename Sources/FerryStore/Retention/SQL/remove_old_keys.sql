-- Removes idempotency keys older than $1 seconds, at most $2 of them. Locks: those rows; skips rows that
-- another transaction has locked. Returns their number.
WITH gone AS (
    DELETE FROM idempotency_keys WHERE (tenant, key) IN (
        SELECT tenant, key FROM idempotency_keys
        WHERE created_at < now() - make_interval(secs => $1::double precision)
        ORDER BY created_at LIMIT $2::integer FOR UPDATE SKIP LOCKED)
    RETURNING key
)
SELECT count(*) FROM gone
