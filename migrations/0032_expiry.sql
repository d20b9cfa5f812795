-- Resource timeouts of rows that no node holds, in order. Block ranges only widen: after a backlog each look
-- read the whole table. A job that is leased as it is accepted is never in here.
DROP INDEX jobs_expiry;
CREATE INDEX jobs_expiry ON jobs (expires_at) WHERE state IN ('waiting', 'queued', 'suspended');
