-- Reads the bulk operation whose next step is due for the longest time. Locks: its row until the step is
-- committed, so that one node at a time works on it; skips rows that another node has locked.
-- $1 now, $2 maximum number of ids to return. Columns 0 to 10 as in read_bulk_operation.sql, then whether a
-- cancellation keeps bytes, the upper bound of the jobs still to be looked at (exclusive), the trace context,
-- and the next ids below that bound, the largest first, or null if there is a filter.
SELECT id, tenant, command::text, state::text, filter, cardinality(ids), examined, changed, reasons,
    created_at, finished_at, keeps_bytes, position, traceparent,
    CASE WHEN ids IS NOT NULL THEN ARRAY(
        SELECT u.id FROM unnest(ids) AS u(id) WHERE u.id < position ORDER BY u.id DESC LIMIT $2::integer)
    END
FROM bulk_operations
WHERE state = 'running' AND step_at <= $1::timestamptz
ORDER BY step_at LIMIT 1
FOR UPDATE SKIP LOCKED
