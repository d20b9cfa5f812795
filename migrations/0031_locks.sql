-- A dump has the weakest lock of every table until its end. What waits for it keeps all others waiting who
-- come behind.

-- Until now whoever accepts jobs had no other lock of session_epoch than a dump has. Such transactions are
-- over before the new functions hold: they have a lock of jobs before they ask for the epoch.
LOCK TABLE jobs IN SHARE MODE;

-- As before, with a lock that conflicts with that of lock_session_epoch, which other readers do not have. It
-- is held until the commit. The snapshot of the comparison is taken after it: it shows what was waited for.
CREATE OR REPLACE FUNCTION expect_session_epoch(known bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    LOCK TABLE session_epoch IN ROW SHARE MODE;
    PERFORM FROM session_epoch WHERE is_only AND epoch = known;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'sessions have changed since epoch %', known USING ERRCODE = 'FE001';
    END IF;
END $$;

-- As before, and whoever only reads goes on. Submissions wait behind it: it gives way when one of those
-- before it takes too long.
CREATE OR REPLACE FUNCTION lock_session_epoch() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('lock_timeout', '3s', true);
    LOCK TABLE session_epoch IN EXCLUSIVE MODE;
END $$;

-- Moves what stays of a partition that was taken away, as before. Two statements: with OR each job was looked
-- for among all that are not acknowledged, one after another, as soon as these did not fit into work_mem. The
-- lock comes before the work, which would be in vain while somebody reads the table.
CREATE OR REPLACE FUNCTION drop_finished_jobs(name text, since timestamptz) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('lock_timeout', '1s', true);
    EXECUTE format('LOCK TABLE %I IN ACCESS EXCLUSIVE MODE', name);
    EXECUTE format(
        'INSERT INTO finished_jobs SELECT * FROM %I WHERE finished_at >= $1 ON CONFLICT DO NOTHING', name)
        USING since;
    EXECUTE format(
        'INSERT INTO finished_jobs SELECT j.* FROM unacknowledged_jobs u JOIN %I j ON j.id = u.job
         ON CONFLICT DO NOTHING', name);
    EXECUTE format('DROP TABLE %I', name);
END $$;
