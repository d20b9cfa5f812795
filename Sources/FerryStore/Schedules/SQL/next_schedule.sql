-- Reads when the next schedule is due. Locks nothing. No row if there is none.
SELECT next_run_at FROM schedules WHERE next_run_at IS NOT NULL ORDER BY next_run_at LIMIT 1
