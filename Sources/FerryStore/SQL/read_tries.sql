-- Reads the state of deliveries, when they are due, and their tries, each delivery's in their order, in one
-- snapshot. A delivery without tries is one row whose number is null. Locks nothing. $1 deliveries.
SELECT d.id, d.state, d.next_try_at, t.number, t.started_at, t.duration, t.status, t.error, t.answer
FROM deliveries d LEFT JOIN delivery_tries t ON t.delivery = d.id
WHERE d.id = ANY ($1::uuid[]) ORDER BY d.id, t.number
