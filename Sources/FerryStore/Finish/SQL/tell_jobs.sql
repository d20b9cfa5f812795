-- Writes job.resumed_at_offset of running jobs. Fenced: if a job has another attempt by now, or no node runs
-- it, its event is left out. The row of a job that was held since its submission may not say yet that it has
-- begun. Locks: the new rows.
-- One array element for each event: $1 jobs, $2 attempts, $3 times, $4 offsets, $5 when the attempts began.
-- Returns the ids of the jobs whose events were written.
WITH known AS (
    SELECT u.*, j.tenant, j.session, j.wanted_events, j.revision, j.node,
        coalesce(j.started_at, u.begun_at) AS started_at, j.error
    FROM unnest($1::uuid[], $2::integer[], $3::timestamptz[], $4::bigint[], $5::timestamptz[])
        AS u(id, attempt, at, first_byte, begun_at)
    JOIN jobs j ON j.id = ANY (ARRAY[u.id]) AND j.attempt = u.attempt AND j.node IS NOT NULL
), told AS (
    INSERT INTO event_inbox (tenant, session, packed)
    SELECT tenant, session, string_agg(
        event_pack(
            7, wanted_events, id, at, attempt, revision, 'running', NULL,
            event_detail(node, started_at, NULL, error, NULL, NULL) || '\x04'::bytea || int8send(first_byte)),
        ''::bytea)
    FROM known GROUP BY tenant, session
)
SELECT id FROM known
