-- Takes the receivers of a session event: job webhooks that have asked for it, session by session, each in
-- the order of URLs. Each receiver is returned once for each type.
-- Locks: the rows of session_receivers.
-- One array element a session: $1 tenants, $2 sessions. $3 bit of the type, $4 bits of all types of session
-- events, $5 maximum number of receivers, $6 URL after which to begin in the first session, so that rows this
-- transaction has taken are not read again.
-- Returns the position of the session from 1, the URL, and the job's sealed secrets and traceparent.
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
