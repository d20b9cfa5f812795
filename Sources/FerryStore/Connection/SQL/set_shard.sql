-- Says which row of job_counts this connection adds to from now on: node, lane, and the time in seconds since
-- 1970. A row that is changed for long while somebody keeps a snapshot open becomes slow: each change walks
-- past all versions of it. Locks nothing. $1 the row.
SELECT set_config('ferry.shard', $1::text, false)
