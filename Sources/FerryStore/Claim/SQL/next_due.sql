-- Reads when the next waiting job is due. Locks nothing. No row: no job waits.
SELECT next_attempt_at FROM jobs WHERE state = 'waiting' ORDER BY next_attempt_at LIMIT 1
