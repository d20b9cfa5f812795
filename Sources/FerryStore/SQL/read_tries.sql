-- Reads the tries of a delivery in their order. Locks nothing. $1 delivery.
SELECT number, started_at, duration, status, error,
    answer FROM delivery_tries WHERE delivery = $1::uuid ORDER BY number
