-- Reads finished jobs whose retention is over and that ended when the partition of their time was gone, as
-- old_session_jobs.sql. Locks nothing. $1 only what ended before, $2 how many at most, $3 only ids above this
-- one.
SELECT f.id, (SELECT max(position) FROM event_inbox) FROM finished_jobs_rest f
WHERE f.id > $3::uuid
    AND greatest(f.finished_at, f.acknowledged_at, f.given_up_at) < $1::timestamptz
    AND (SELECT true FROM unacknowledged_jobs u WHERE u.job = f.id) IS NULL
ORDER BY f.id LIMIT $2::integer
