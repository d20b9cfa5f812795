-- Jobs that may wait start in turns of their tenants and sessions.

-- One look at each session that has such jobs, and its jobs in the order in which they may start.
CREATE INDEX jobs_discretionary_turns ON jobs (tenant, session, discretionary_from, id)
    WHERE state = 'waiting' AND waiting_for = 'discretionary';
