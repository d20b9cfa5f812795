-- Jobs wait for hosts that nobody reaches before they are leased.

-- Whether a queued job waits, with all jobs of its host, until that can be reached (`JobSpec.awaitsHost` in
-- the source). One whose attempt was lost with its node does not: it is leased, because it may have to end.
-- Nor does one that cannot be read.
CREATE FUNCTION job_awaits_host(spec text, error text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN coalesce(spec::json #>> '{schedule,waits_for_connectivity}', 'true') = 'true'
        AND spec::json #>> '{request,proxy}' IS NULL
        AND spec::json #>> '{mirrors,0}' IS NULL
        AND coalesce(error::json ->> 'code', '') <> 'node_lost';
EXCEPTION WHEN data_exception THEN
    RETURN false;
END
$$;
