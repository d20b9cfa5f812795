-- Like old_session_jobs.sql, for all sessions and tenants. Locks nothing.
-- $1 upper bound of ids (exclusive), $2 end of the retention, $3 maximum number of jobs, $4 lower bound of
-- ids (exclusive).
SELECT f.id, (SELECT max(position) FROM event_inbox) FROM finished_jobs f
WHERE f.id < $1::uuid AND f.id > $4::uuid
    AND greatest(f.finished_at, f.acknowledged_at, f.given_up_at) < $2::timestamptz
    AND (SELECT true FROM unacknowledged_jobs u WHERE u.job = f.id) IS NULL
ORDER BY f.id LIMIT $3::integer
