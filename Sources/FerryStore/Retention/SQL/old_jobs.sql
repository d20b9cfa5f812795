-- Reads finished jobs of anybody whose retention is over, as old_session_jobs.sql. Locks nothing. $1 only ids
-- below this one, $2 only what ended before, $3 how many at most, $4 only ids above this one.
SELECT f.id, (SELECT max(position) FROM event_inbox) FROM finished_jobs f
WHERE f.id < $1::uuid AND f.id > $4::uuid
    AND greatest(f.finished_at, f.acknowledged_at, f.given_up_at) < $2::timestamptz
    AND (SELECT true FROM unacknowledged_jobs u WHERE u.job = f.id) IS NULL
ORDER BY f.id LIMIT $3::integer
