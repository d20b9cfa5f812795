-- Returns whether an event of a job waits for its number. Locks nothing. $1 tenant, $2 job.
SELECT EXISTS (
    SELECT FROM event_inbox WHERE tenant = $1::text AND position(uuid_send($2::uuid) IN packed) > 0)
