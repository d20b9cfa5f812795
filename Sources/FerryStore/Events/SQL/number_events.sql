-- Gives events the next sequence numbers of their sessions, and counts the sessions' unfinished jobs. The
-- relay's lock keeps other passes out, so that the times below are those of the pass before.
-- Locks: the sessions, in the order of their names.
-- One array element a session: $1 tenants, $2 sessions, $3 number of events, $4 change of the number of
-- unfinished jobs, $5 whether jobs have ended, $6 when the latest event happened.
-- Returns for each session its tenant, name and last number, whether it has drained, and the time that its
-- last event before these shows, or null (read in the snapshot).
INSERT INTO sessions AS s (tenant, name, last_sequence, unfinished, is_drained, last_at)
SELECT u.tenant, u.session, u.event_count, u.growth, u.has_ended AND u.growth = 0, u.last_at
FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::boolean[], $6::timestamptz[])
    AS u(tenant, session, event_count, growth, has_ended, last_at)
ORDER BY u.tenant, u.session
ON CONFLICT (tenant, name) DO UPDATE SET
    last_sequence = s.last_sequence + excluded.last_sequence,
    unfinished = s.unfinished + excluded.unfinished,
    last_at = greatest(s.last_at, excluded.last_at),
    is_drained = s.unfinished + excluded.unfinished = 0
        AND (s.is_drained OR excluded.is_drained OR excluded.unfinished < 0)
RETURNING tenant, name, last_sequence, is_drained,
    (SELECT b.last_at FROM sessions b WHERE b.tenant = s.tenant AND b.name = s.name)
