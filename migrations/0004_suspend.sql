-- Suspended jobs, and what jobs leave for others to go on from.

ALTER TABLE jobs
    -- Somebody asked for it while a node ran it.
    ADD COLUMN suspend_requested boolean NOT NULL DEFAULT false,
    -- The cancellation that was asked for is to leave the bytes.
    ADD COLUMN keeps_bytes boolean NOT NULL DEFAULT false,
    -- The last attempt has left bytes that the next one may go on from.
    ADD COLUMN has_bytes boolean NOT NULL DEFAULT false;

ALTER TABLE finished_jobs
    -- Sealed; as clients get it. While it is young, files of this job are kept.
    ADD COLUMN resume_data text;
