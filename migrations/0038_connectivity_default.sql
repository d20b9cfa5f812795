-- Jobs do not wait for connectivity by default: a stored spec without the member has the default value.

CREATE OR REPLACE FUNCTION job_awaits_host(spec text, error text)
RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN coalesce(spec::json #>> '{schedule,waits_for_connectivity}', 'false') = 'true'
        AND spec::json #>> '{request,proxy}' IS NULL
        AND spec::json #>> '{mirrors,0}' IS NULL
        AND coalesce(error::json ->> 'code', '') <> 'node_lost';
EXCEPTION WHEN data_exception THEN
    RETURN false;
END
$$;
