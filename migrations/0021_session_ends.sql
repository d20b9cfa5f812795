-- The end of a session's events: found without reading what waits for endpoints that get nothing, and told to
-- webhooks whose jobs are gone.

-- Whether anything is on its way to the jobs' own webhooks, and to each endpoint.
DROP INDEX deliveries_session;
CREATE INDEX deliveries_session ON deliveries (tenant, session, endpoint) WHERE state = 'pending';

ALTER TABLE session_receivers
    -- Of that job, which may be gone by then: sealed.
    ADD COLUMN secrets bytea,
    ADD COLUMN traceparent text;
UPDATE session_receivers r SET secrets = j.secrets, traceparent = j.traceparent
FROM jobs j WHERE j.id = r.job;
UPDATE session_receivers r SET secrets = j.secrets, traceparent = j.traceparent
FROM finished_jobs j WHERE j.id = r.job;
-- Those that may be forgotten.
CREATE INDEX session_receivers_changed ON session_receivers (changed_at);
