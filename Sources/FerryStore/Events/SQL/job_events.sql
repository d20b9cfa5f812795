-- Reads the rows of the log that have events of a job: rows at the times that the job's row names, and rows
-- marked with the job. Locks nothing.
-- $1 tenant, $2 session, $3 job, $4 times. A row spans at most ten seconds, so a search by time ends soon.
-- OFFSET 0 makes the search for marks use the index of the marks.
SELECT w.id, w.tenant, w.session, w.first_sequence, w.packed, w.not_before
FROM unnest($4::timestamptz[]) AS t(at) CROSS JOIN LATERAL (
    SELECT e.id, e.tenant, e.session, e.first_sequence, e.packed, e.not_before FROM events e
    WHERE e.tenant = $1::text AND e.session = $2::text
        AND e.last_at BETWEEN t.at AND t.at + interval '10 seconds' AND e.first_at <= t.at
        AND position(
            uuid_send($3::uuid) || int8send((extract(epoch FROM t.at) * 1000000)::bigint) IN e.packed) > 0
    ORDER BY e.last_at LIMIT 1
) w
UNION
SELECT m.id, m.tenant, m.session, m.first_sequence, m.packed, m.not_before FROM (
    SELECT id, tenant, session, first_sequence, packed, not_before FROM events
    WHERE marked @> ARRAY[$3::uuid] OFFSET 0
) m WHERE m.tenant = $1::text
