-- Like old_session_jobs.sql, for the default session of a tenant. Locks nothing.
-- $1 tenant, $2 upper bound of ids (exclusive), $3 end of the retention, $4 maximum number of jobs, $5 lower
-- bound of ids (exclusive).
SELECT f.id, (SELECT max(position) FROM event_inbox) FROM finished_jobs f
WHERE f.tenant = $1::text AND f.id < $2::uuid AND f.id > $5::uuid AND f.session = 'default'
    AND greatest(f.finished_at, f.acknowledged_at, f.given_up_at) < $3::timestamptz
    AND (SELECT true FROM unacknowledged_jobs u WHERE u.job = f.id) IS NULL
ORDER BY f.tenant, f.id LIMIT $4::integer
