-- Reads when the next step of any bulk operation is due. Locks nothing. No row if none runs.
SELECT step_at FROM bulk_operations WHERE state = 'running' ORDER BY step_at LIMIT 1
