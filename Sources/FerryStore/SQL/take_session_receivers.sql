-- Takes the wish for an event of sessions from the webhooks of their jobs. Locks: the rows. One array element
-- a session: $1 tenants, $2 sessions; $3 the bits of the type, $4 all bits of events of sessions, $5 how many
-- webhooks at most. Returns tenant, session and URL of those who want it, and the sealed secrets and
-- traceparent of the job.
WITH found AS (
    SELECT r.* FROM unnest($1::text[], $2::text[]) AS u(tenant, session)
    JOIN session_receivers r ON r.tenant = u.tenant AND r.session = u.session
    WHERE r.wanted & $3::integer <> 0
    LIMIT $5::integer FOR UPDATE OF r
), gone AS (
    DELETE FROM session_receivers r USING found f
    WHERE r.tenant = f.tenant AND r.session = f.session AND r.url = f.url
        AND f.wanted & $4::integer & ~$3::integer = 0
), left_over AS (
    UPDATE session_receivers r SET wanted = r.wanted & ~$3::integer FROM found f
    WHERE r.tenant = f.tenant AND r.session = f.session AND r.url = f.url
        AND f.wanted & $4::integer & ~$3::integer <> 0
)
SELECT tenant, session, url, secrets, traceparent FROM found
