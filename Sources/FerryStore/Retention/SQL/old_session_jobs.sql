-- Reads finished jobs of a session other than the default one whose retention is over, and which
-- remove_jobs.sql may remove. Locks nothing.
-- $1 tenant, $2 session, $3 upper bound of ids (exclusive), $4 end of the retention: only jobs that ended
-- before, $5 maximum number of jobs, $6 lower bound of ids (exclusive).
-- Returns their ids, and the last position of event_inbox: their events are not behind it.
SELECT f.id, (SELECT max(position) FROM event_inbox) FROM finished_jobs f
WHERE f.tenant = $1::text AND f.session = $2::text AND f.session <> 'default'
    AND f.id < $3::uuid AND f.id > $6::uuid
    AND greatest(f.finished_at, f.acknowledged_at, f.given_up_at) < $4::timestamptz
    AND (SELECT true FROM unacknowledged_jobs u WHERE u.job = f.id) IS NULL
ORDER BY f.tenant, f.session, f.id LIMIT $5::integer
