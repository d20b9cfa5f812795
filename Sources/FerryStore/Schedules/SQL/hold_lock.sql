-- Takes an advisory lock for this database session, which may hold it already. Returns `false` if another
-- session holds it. $1 number of the lock.
SELECT pg_try_advisory_lock($1::bigint)
