-- Postpones the next step of a bulk operation. Locks: its row. $1 id, $2 when the step is due.
UPDATE bulk_operations SET step_at = $2::timestamptz WHERE id = $1::uuid AND state = 'running'
