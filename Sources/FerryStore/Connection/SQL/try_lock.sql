-- Takes an advisory lock until the transaction ends, unless another one has it. $1 its number.
SELECT pg_try_advisory_xact_lock($1::bigint)
