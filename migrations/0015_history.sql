-- Finished jobs by time, so that what is too old goes with its whole table and costs nothing. The time is the
-- one in the identifier (its first 48 bits are milliseconds), so that whoever knows a job's identifier knows
-- the partition. A partition is named by the end of its range, in milliseconds and hexadecimal.

ALTER TABLE finished_jobs RENAME TO finished_jobs_before;
ALTER TABLE finished_jobs_before RENAME CONSTRAINT finished_jobs_pkey TO finished_jobs_before_pkey;
ALTER INDEX finished_jobs_tenant RENAME TO finished_jobs_before_tenant;
ALTER INDEX finished_jobs_metadata RENAME TO finished_jobs_before_metadata;

CREATE TABLE finished_jobs (LIKE finished_jobs_before INCLUDING CONSTRAINTS INCLUDING DEFAULTS)
    PARTITION BY RANGE (id);
ALTER TABLE finished_jobs ADD CONSTRAINT finished_jobs_pkey PRIMARY KEY (id);
-- Lists, newest first.
CREATE INDEX finished_jobs_tenant ON finished_jobs (tenant, id);
-- Lists by metadata.
CREATE INDEX finished_jobs_metadata ON finished_jobs USING gin (metadata jsonb_path_ops)
    WHERE metadata IS NOT NULL;
-- Lists of a session, and what a session keeps for a shorter time. As jobs_session.
CREATE INDEX finished_jobs_session ON finished_jobs (tenant, session, id) WHERE session <> 'default';

-- Jobs that end when the partition of their time is gone already.
CREATE TABLE finished_jobs_rest PARTITION OF finished_jobs DEFAULT;

-- Adds the partition that ends at `until`. Attached, not created in place: that would hold up everybody.
CREATE FUNCTION add_finished_jobs(since uuid, until uuid) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    name text := 'finished_jobs_' || left(replace(until::text, '-', ''), 12);
BEGIN
    PERFORM set_config('lock_timeout', '1s', true);
    EXECUTE format(
        'CREATE TABLE %I (LIKE finished_jobs INCLUDING CONSTRAINTS INCLUDING DEFAULTS)
         WITH (autovacuum_vacuum_insert_scale_factor = 0.1)', name);
    EXECUTE format(
        'ALTER TABLE finished_jobs ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', name, since, until);
END $$;

-- Takes a partition away from the others; the jobs named stay, in the partition for the rest.
CREATE FUNCTION detach_finished_jobs(name text, kept uuid[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('lock_timeout', '1s', true);
    EXECUTE format('ALTER TABLE finished_jobs DETACH PARTITION %I', name);
    EXECUTE format('INSERT INTO finished_jobs SELECT * FROM %I WHERE id = ANY ($1)', name) USING kept;
END $$;

-- Removes a partition that was taken away. Jobs that ended since `since` were there too late to be named;
-- they stay.
CREATE FUNCTION drop_finished_jobs(name text, since timestamptz) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format(
        'INSERT INTO finished_jobs SELECT * FROM %I WHERE finished_at >= $1 ON CONFLICT DO NOTHING', name)
        USING since;
    EXECUTE format('DROP TABLE %I', name);
END $$;

-- The jobs of a partition that ended since `since`, so many at most.
CREATE FUNCTION late_finished_jobs(name text, since timestamptz, count_max integer) RETURNS SETOF uuid
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN QUERY EXECUTE format('SELECT id FROM %I WHERE finished_at >= $1 LIMIT $2', name)
        USING since, count_max;
END $$;

-- What is there goes into one partition, which ends in a day; the next ones are added while the service runs.
DO $$
DECLARE
    until bigint := (extract(epoch FROM now()) * 1000)::bigint + 86400000;
    digits text := lpad(to_hex(until), 12, '0');
BEGIN
    EXECUTE format('ALTER TABLE finished_jobs_before RENAME TO %I', 'finished_jobs_' || digits);
    EXECUTE format(
        'ALTER TABLE finished_jobs ATTACH PARTITION %I FOR VALUES FROM (MINVALUE) TO (%L)',
        'finished_jobs_' || digits, (digits || repeat('0', 20))::uuid);
END $$;
