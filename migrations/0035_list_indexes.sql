-- Lists: each is read in order from one index, a bounded number of entries at a time.

-- Jobs of a schedule, newest first.
CREATE INDEX schedule_runs_list ON schedule_runs (schedule, job);
-- Deliveries of a job, newest first.
CREATE INDEX deliveries_list ON deliveries (job, id);
DROP INDEX deliveries_job;
-- A list with a filter on metadata reads the jobs in their order: the index was read whole for a value that
-- many jobs have.
DROP INDEX jobs_metadata;
DROP INDEX finished_jobs_metadata;
