-- Reads finished jobs of a tenant's default session whose retention is over, as old_session_jobs.sql. Locks
-- nothing. $1 tenant, $2 only ids below this one, $3 only what ended before, $4 how many at most, $5 only ids
-- above this one.
SELECT f.id, (SELECT max(position) FROM event_inbox) FROM finished_jobs f
WHERE f.tenant = $1::text AND f.id < $2::uuid AND f.id > $5::uuid AND f.session = 'default'
    AND greatest(f.finished_at, f.acknowledged_at, f.given_up_at) < $3::timestamptz
    AND (SELECT true FROM unacknowledged_jobs u WHERE u.job = f.id) IS NULL
ORDER BY f.tenant, f.id LIMIT $4::integer
