-- Reads how fast origins were, lately measured ones first. Locks nothing. $1 how many at most.
SELECT origin, bytes_per_second FROM host_throughputs ORDER BY measured_at DESC LIMIT $1::integer
