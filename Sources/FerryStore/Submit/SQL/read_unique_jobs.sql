-- Finds the jobs that have unique keys. Locks nothing. A statement after lock_unique_keys.sql in the same
-- transaction: its snapshot has the jobs of the transactions for which the locks have waited.
-- One array element for each key: $1 tenants, $2 keys, $3 the earliest end of a succeeded job that has the
-- key, or null if only an unfinished one does.
-- Returns the number of the key, from 1, the job, its state and its creation; unfinished jobs first.
WITH u AS MATERIALIZED (
    SELECT number, since, unique_key_id(tenant, key) AS key
    FROM unnest($1::text[], $2::text[], $3::timestamptz[]) WITH ORDINALITY AS u(tenant, key, since, number)
)
SELECT u.number, j.id, j.state::text, j.created_at FROM u CROSS JOIN LATERAL (
    SELECT id, state, created_at FROM jobs WHERE unique_key = u.key LIMIT 1
) j
UNION ALL
SELECT u.number, j.id, j.state::text, j.created_at FROM u CROSS JOIN LATERAL (
    SELECT id, state, created_at FROM finished_jobs
    WHERE unique_key = u.key AND state = 'succeeded' AND finished_at >= u.since
    ORDER BY finished_at DESC LIMIT 1
) j WHERE u.since IS NOT NULL
