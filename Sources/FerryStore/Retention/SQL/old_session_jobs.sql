-- Reads finished jobs of a session that is not the default one whose retention is over: those that may be
-- removed (remove_jobs.sql). Locks nothing. $1 tenant, $2 session, $3 only ids below this one, $4 only what
-- ended before, $5 how many at most, $6 only ids above this one. Returns their ids, and the last place in
-- event_inbox: what it says of them is not behind it.
SELECT f.id, (SELECT max(position) FROM event_inbox) FROM finished_jobs f
WHERE f.tenant = $1::text AND f.session = $2::text AND f.session <> 'default'
    AND f.id < $3::uuid AND f.id > $6::uuid
    AND greatest(f.finished_at, f.acknowledged_at, f.given_up_at) < $4::timestamptz
    AND (SELECT true FROM unacknowledged_jobs u WHERE u.job = f.id) IS NULL
ORDER BY f.tenant, f.session, f.id LIMIT $5::integer
