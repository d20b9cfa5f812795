-- Reads due schedules. Locks: up to $1 due rows; skips rows that another transaction has locked.
-- $1 maximum number of schedules, $2 now, $3 bytes of stored jobs after which locked rows are left out.
-- Columns 0 to 21 as in read_schedule.sql, then whether jobs of earlier occurrences matter, and the number of
-- locked rows.
WITH due AS MATERIALIZED (
    SELECT s.* FROM schedules s
    WHERE s.next_run_at <= $2::timestamptz
    ORDER BY s.next_run_at LIMIT $1::integer
    FOR UPDATE OF s SKIP LOCKED
), sized AS (
    -- Without an order of its own, the window takes the rows as they come.
    SELECT d.*, count(*) OVER () AS locked_count,
        sum(pg_column_size(d.specs) + pg_column_size(d.secrets) + pg_column_size(d.payloads))
            OVER (ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS size_before
    FROM due d
)
SELECT id, tenant, revision, created_at, updated_at, definition, specs, next_scheduled_at, next_run_at,
    last_scheduled_at, last_run_at, last_job, run_count, missed_count, skipped_count, secrets, payloads,
    is_held, last_skipped_at, skip_reason, job_group, closes_group, watches_jobs, locked_count
FROM sized WHERE size_before IS NULL OR size_before < $3::bigint
