-- Writes the outcome of due schedules, whose rows the same transaction has locked. Joined as in
-- finish_jobs.sql.
-- One array element a schedule: $1 ids, $2 next occurrences or null, $3 when each is checked again or null,
-- $4 whether it waits for an earlier job, $5 submitted occurrences or null, $6 their first jobs or null, $7
-- number of missed occurrences, $8 number of skipped ones. $9 now, $10 why one was skipped or null.
UPDATE schedules s SET
    next_scheduled_at = u.next, next_run_at = u.run_at, is_held = u.held,
    last_scheduled_at = coalesce(u.scheduled_at, s.last_scheduled_at),
    last_run_at = CASE WHEN u.job IS NULL THEN s.last_run_at ELSE $9::timestamptz END,
    last_job = coalesce(u.job, s.last_job),
    run_count = s.run_count + CASE WHEN u.job IS NULL THEN 0 ELSE 1 END,
    missed_count = s.missed_count + u.missed, skipped_count = s.skipped_count + u.skipped,
    last_skipped_at = CASE WHEN u.reason IS NULL THEN s.last_skipped_at ELSE $9::timestamptz END,
    skip_reason = coalesce(u.reason, s.skip_reason)
FROM unnest(
    $1::uuid[], $2::timestamptz[], $3::timestamptz[], $4::boolean[], $5::timestamptz[], $6::uuid[],
    $7::bigint[], $8::bigint[], $10::text[]
) AS u(id, next, run_at, held, scheduled_at, job, missed, skipped, reason)
WHERE s.id = ANY (ARRAY[u.id])
