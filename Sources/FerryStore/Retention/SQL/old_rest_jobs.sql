-- Like old_session_jobs.sql, for jobs whose partition was dropped before they ended (finished_jobs_rest).
-- Locks nothing.
-- $1 end of the retention, $2 maximum number of jobs, $3 lower bound of ids (exclusive).
SELECT f.id, (SELECT max(position) FROM event_inbox) FROM finished_jobs_rest f
WHERE f.id > $3::uuid
    AND greatest(f.finished_at, f.acknowledged_at, f.given_up_at) < $1::timestamptz
    AND (SELECT true FROM unacknowledged_jobs u WHERE u.job = f.id) IS NULL
ORDER BY f.id LIMIT $2::integer
