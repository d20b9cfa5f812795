-- Takes the wish for an event of sessions from the webhooks of their jobs, session by session, each in the
-- order of the URLs. Locks: the rows. One array element a session: $1 tenants, $2 sessions; $3 the bits of
-- the type, $4 all bits of events of sessions, $5 how many webhooks at most, $6 the URL behind which it
-- begins in the first session, so that nothing is stepped over that this transaction has taken. Returns which
-- of the sessions it is, from 1, and the URL of those who want it, and the sealed secrets and traceparent of
-- the job.
WITH found AS (
    SELECT u.place, r.* FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS u(tenant, session, place)
    CROSS JOIN LATERAL (
        SELECT * FROM session_receivers
        WHERE tenant = u.tenant AND session = u.session
            AND url > CASE WHEN u.place = 1 THEN $6::text ELSE '' END AND wanted & $3::integer <> 0
        ORDER BY url LIMIT $5::integer FOR UPDATE
    ) r
    ORDER BY u.place LIMIT $5::integer
), gone AS (
    DELETE FROM session_receivers r USING found f
    WHERE r.tenant = f.tenant AND r.session = f.session AND r.url = f.url
        AND f.wanted & $4::integer & ~$3::integer = 0
), left_over AS (
    UPDATE session_receivers r SET wanted = r.wanted & ~$3::integer FROM found f
    WHERE r.tenant = f.tenant AND r.session = f.session AND r.url = f.url
        AND f.wanted & $4::integer & ~$3::integer <> 0
)
SELECT place, url, secrets, traceparent FROM found ORDER BY place, url
