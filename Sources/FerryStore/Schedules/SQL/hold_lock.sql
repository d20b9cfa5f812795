-- Takes an advisory lock for this session, which may have it already, unless somebody else has it. $1 its
-- number.
SELECT pg_try_advisory_lock($1::bigint)
