-- Reads the throughput of origins, latest measurements first. Locks nothing. $1 maximum number of origins.
SELECT origin, bytes_per_second FROM host_throughputs ORDER BY measured_at DESC LIMIT $1::integer
