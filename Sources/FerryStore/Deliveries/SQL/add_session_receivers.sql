-- Adds job webhooks that want the events of their session. Locks: the rows, in the order of tenant, session
-- and URL.
-- One array element a webhook: $1 tenants, $2 sessions, $3 URLs, $4 jobs, $5 types of events (bit mask), $6
-- sealed secrets or null, $7 traceparents or null.
INSERT INTO session_receivers AS r (tenant, session, url, job, wanted, changed_at, secrets, traceparent)
SELECT DISTINCT ON (u.tenant, u.session, u.url)
    u.tenant, u.session, u.url, u.job, u.wanted, now(), u.secrets, u.traceparent
FROM unnest($1::text[], $2::text[], $3::text[], $4::uuid[], $5::integer[], $6::bytea[], $7::text[])
    AS u(tenant, session, url, job, wanted, secrets, traceparent)
ORDER BY u.tenant, u.session, u.url, u.job DESC
ON CONFLICT (tenant, session, url) DO UPDATE SET
    job = excluded.job, wanted = r.wanted | excluded.wanted, changed_at = excluded.changed_at,
    secrets = excluded.secrets, traceparent = excluded.traceparent
