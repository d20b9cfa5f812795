-- Reads what every node has to know of hosts. Locks nothing. $1 how many at most. Returns the origin, why
-- nobody is reached there, bytes a second, and when somebody has to look.
SELECT origin, unreachable, bytes_per_second_max, due_at FROM hosts LIMIT $1::integer
