-- Writes events of jobs that are not finished. Fenced: if a job has another attempt by now, its event is left
-- out. Locks: the new rows. One array element for each event: $1 jobs, $2 attempts, $3 the event
-- (EventRecord). Returns the ids of the jobs whose events were written.
WITH known AS (
    SELECT u.id, u.packed, j.tenant, j.session
    FROM unnest($1::uuid[], $2::integer[], $3::bytea[]) AS u(id, attempt, packed)
    JOIN jobs j ON j.id = ANY (ARRAY[u.id]) AND j.attempt = u.attempt
), told AS (
    INSERT INTO event_inbox (tenant, session, packed)
    SELECT tenant, session, string_agg(packed, ''::bytea) FROM known GROUP BY tenant, session
)
SELECT id FROM known
