-- Jobs that may wait start in turns of their tenants and sessions, and what sees a row for every job is
-- vacuumed before a fifth of it is dead.

-- One look at each session that has such jobs, and its jobs in the order in which they may start.
CREATE INDEX jobs_discretionary_turns ON jobs (tenant, session, discretionary_from, id)
    WHERE state = 'waiting' AND waiting_for = 'discretionary';

-- As deliveries: a row for each submission, try, run or dependency, removed again.
ALTER TABLE idempotency_keys SET (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);
ALTER TABLE delivery_tries SET (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);
ALTER TABLE schedule_runs SET (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);
ALTER TABLE job_dependencies SET (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);
-- Few rows that change all the time, or are replaced.
ALTER TABLE sessions SET (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 200,
    autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);
ALTER TABLE session_receivers SET (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 200,
    autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);
ALTER TABLE lots SET (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 200,
    autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);
ALTER TABLE host_decisions SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200,
    autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);
ALTER TABLE host_throughputs SET (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 200,
    autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);
ALTER TABLE nodes SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 50,
    autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);
