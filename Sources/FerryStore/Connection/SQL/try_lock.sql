-- Takes an advisory lock until the transaction ends, unless somebody else has it. $1 its number.
SELECT pg_try_advisory_xact_lock($1::bigint)
