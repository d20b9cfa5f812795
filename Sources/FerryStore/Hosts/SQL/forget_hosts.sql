-- Removes hosts whose state is no longer needed.
-- Locks: their rows, which this transaction has locked already, and their decisions.
-- $1 origins.
WITH gone AS (
    DELETE FROM hosts WHERE origin = ANY ($1::text[]) RETURNING origin
)
DELETE FROM host_decisions WHERE origin IN (SELECT origin FROM gone)
