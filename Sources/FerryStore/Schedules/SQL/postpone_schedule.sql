-- Puts the next look at a schedule off. Locks: the row. $1 id, $2 when it is looked at again.
UPDATE schedules SET next_run_at = $2::timestamptz WHERE id = $1::uuid AND next_run_at IS NOT NULL
