-- Reads the tries of deliveries, each delivery's in their order. Locks nothing. $1 deliveries.
SELECT delivery, number, started_at, duration, status, error, answer
FROM delivery_tries WHERE delivery = ANY ($1::uuid[]) ORDER BY delivery, number
