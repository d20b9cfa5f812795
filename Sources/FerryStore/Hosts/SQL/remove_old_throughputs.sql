-- Removes origins that were not measured for 30 days. Locks: their rows. $1 now, $2 maximum number of
-- origins.
DELETE FROM host_throughputs WHERE origin = ANY (ARRAY(
    SELECT origin FROM host_throughputs WHERE measured_at < $1::timestamptz - interval '30 days'
    ORDER BY measured_at LIMIT $2::integer))
