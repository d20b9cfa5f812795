-- Reads the state of hosts that every node has to know. Locks nothing. $1 maximum number of hosts.
-- Returns the origin, why it is unreachable or null, bytes per second or null, and when a node has to check
-- it.
SELECT origin, unreachable, bytes_per_second_max, due_at FROM hosts LIMIT $1::integer
