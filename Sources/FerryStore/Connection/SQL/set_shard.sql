-- Sets the row of job_counts that this connection changes from now on: node, connection name, and the time in
-- seconds since 1970. A row that changes for long while any transaction keeps an old snapshot becomes slow:
-- each change walks past all its versions. Locks nothing. $1 the row.
SELECT set_config('ferry.shard', $1::text, false)
