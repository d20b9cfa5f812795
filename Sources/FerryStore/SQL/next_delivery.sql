-- Reads when the next delivery is due. Locks nothing. No row: none is pending.
SELECT next_try_at FROM deliveries WHERE state = 'pending' ORDER BY next_try_at LIMIT 1
