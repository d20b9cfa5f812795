-- What the attempts of a job did, packed (AttemptRecord in the source): read by nobody but /attempts, so that
-- they are columns and not rows of their own.

ALTER TABLE jobs
    -- Those that have ended, the oldest first, at most 49.
    ADD COLUMN attempts bytea[];

ALTER TABLE finished_jobs
    -- As they came from `jobs`; null for a job that needed one attempt.
    ADD COLUMN attempts bytea[],
    -- The one that ended the job; null when none did.
    ADD COLUMN last_attempt bytea;
