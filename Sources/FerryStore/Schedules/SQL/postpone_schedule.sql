-- Postpones the next check of a schedule. Locks: the row. $1 id, $2 when it is checked again.
UPDATE schedules SET next_run_at = $2::timestamptz WHERE id = $1::uuid AND next_run_at IS NOT NULL
