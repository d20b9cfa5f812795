-- Removes bulk operations that ended more than $1 seconds ago, at most $2 of them. Locks: those rows; skips
-- rows that another transaction has locked. Returns their number.
WITH gone AS (
    DELETE FROM bulk_operations WHERE id IN (
        SELECT id FROM bulk_operations
        WHERE finished_at < now() - make_interval(secs => $1::double precision)
        ORDER BY finished_at LIMIT $2::integer FOR UPDATE SKIP LOCKED)
    RETURNING id
)
SELECT count(*) FROM gone
