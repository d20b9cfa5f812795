-- Takes a partition away from the others, as before. The jobs named are moved, not copied: one that was
-- copied and then deleted came back with what `drop_finished_jobs` finds.
CREATE OR REPLACE FUNCTION detach_finished_jobs(name text, kept uuid[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('lock_timeout', '1s', true);
    EXECUTE format('ALTER TABLE finished_jobs DETACH PARTITION %I', name);
    EXECUTE format(
        'WITH moved AS (DELETE FROM %I WHERE id = ANY ($1) RETURNING *)
         INSERT INTO finished_jobs SELECT * FROM moved', name) USING kept;
END $$;
