-- The latest of a job's attempts (AttemptRecord) that says how many bytes it has left; null: none does. Such
-- a record begins with 1, and the fifth bit of its third byte is set.
CREATE FUNCTION kept_attempt(attempts bytea[]) RETURNS bytea LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT a FROM unnest($1) WITH ORDINALITY AS u(a, number)
    WHERE CASE WHEN length(a) > 2 THEN get_byte(a, 0) = 1 AND get_byte(a, 2) & 16 <> 0 END
    ORDER BY number DESC LIMIT 1
$$;
