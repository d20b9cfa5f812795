-- What clients say about when a job is to run.

ALTER TABLE jobs
    -- When the job must have ended; expires_at is not later. Null: whenever that is.
    ADD COLUMN deadline_at timestamptz;

-- The next deadline, and those that have passed. Most jobs have none and are not in it.
CREATE INDEX jobs_deadline ON jobs (deadline_at) WHERE deadline_at IS NOT NULL;
