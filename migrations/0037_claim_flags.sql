-- What a claim has to know of a job's spec. The submission fills both columns, an edit and an answer replace
-- them. Null: a binary from before has inserted the row. Such a job counts as one that must not be sent
-- twice, and whether it waits for its host is read from its spec. A binary from before that edits a job
-- leaves both as they are: they choose which rows a claim takes, and the node that has leased a job reads its
-- spec before it begins.

-- The default is the value of most rows, which then need not be written.
ALTER TABLE jobs
    -- The request may be sent twice (JobSpec.isRepeatable in the source).
    ADD COLUMN is_repeatable boolean DEFAULT true,
    -- The job waits until its host can be reached (JobSpec.awaitsHost in the source).
    ADD COLUMN awaits_host boolean DEFAULT true;

-- As the source decides at this version; false if the spec cannot be read.
CREATE FUNCTION job_is_repeatable(spec text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN coalesce(spec::json #>> '{retry,non_idempotent}', 'false') = 'true' OR coalesce(
        spec::json #>> '{request,method}' IN ('GET', 'HEAD', 'PUT', 'DELETE', 'OPTIONS', 'TRACE'), false);
EXCEPTION WHEN data_exception THEN
    RETURN false;
END
$$;
UPDATE jobs SET is_repeatable = job_is_repeatable(spec), awaits_host = job_awaits_host(spec, NULL)
WHERE NOT (job_is_repeatable(spec) AND job_awaits_host(spec, NULL));
DROP FUNCTION job_is_repeatable;
ALTER TABLE jobs ALTER COLUMN is_repeatable DROP DEFAULT, ALTER COLUMN awaits_host DROP DEFAULT;
