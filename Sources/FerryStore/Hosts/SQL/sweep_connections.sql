-- Removes connections of attempts that have ended. Locks: their rows; skips rows that another transaction has
-- locked. $1 maximum number of rows.
DELETE FROM connections c
WHERE (c.origin, c.path, c.job, c.attempt) IN (
    SELECT o.origin, o.path, o.job, o.attempt FROM connections o
    WHERE NOT coalesce((
        SELECT j.node IS NOT NULL AND j.attempt = o.attempt FROM jobs j WHERE j.id = ANY (ARRAY[o.job])),
        false)
    LIMIT $1::integer FOR UPDATE SKIP LOCKED)
