-- Writes the throughput of origins, averaged with the stored value. Locks: their rows, in the order of the
-- arrays.
-- One array element an origin: $1 origins, $2 bytes per second. $3 now.
INSERT INTO host_throughputs AS h (origin, bytes_per_second, measured_at)
SELECT u.origin, u.rate, $3::timestamptz FROM unnest($1::text[], $2::double precision[]) AS u(origin, rate)
ON CONFLICT (origin) DO UPDATE SET
    bytes_per_second = (h.bytes_per_second + excluded.bytes_per_second) / 2,
    measured_at = excluded.measured_at
