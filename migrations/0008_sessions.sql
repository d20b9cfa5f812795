-- Sessions that somebody has configured or invalidated. The numbers of their events stay in `sessions`, which
-- is written with every event.

CREATE TABLE session_configurations (
    tenant text NOT NULL,
    name text NOT NULL,
    -- Grows with every change: the entity tag.
    revision integer NOT NULL,
    -- session_epoch.epoch of the last change that concerns those who accept jobs.
    epoch bigint NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    -- A JSON object (SessionConfiguration in the source).
    configuration text NOT NULL,
    -- Sealed.
    secrets bytea,
    -- `finish` or `cancel`: the session takes no more jobs, and what becomes of those it has.
    invalidation text,
    invalidated_at timestamptz,
    -- It is invalidated, and its last job is over.
    ended_at timestamptz,
    CONSTRAINT session_configurations_pkey PRIMARY KEY (tenant, name),
    CONSTRAINT session_configurations_invalidation CHECK (invalidation IN ('finish', 'cancel')),
    CONSTRAINT session_configurations_end CHECK (
        (invalidation IS NULL) = (invalidated_at IS NULL) AND (ended_at IS NULL OR invalidation IS NOT NULL))
);
-- What a node has not read yet.
CREATE INDEX session_configurations_epoch ON session_configurations (epoch);
-- Those that are on their way to their end.
CREATE INDEX session_configurations_ending ON session_configurations (invalidated_at)
    WHERE invalidation IS NOT NULL AND ended_at IS NULL;

-- One row. Whoever inserts jobs compares it in the same transaction (expect_session_epoch), and so holds a
-- shared lock of the table until the commit; whoever changes a session takes the exclusive one first
-- (lock_session_epoch). So a job was either there before the change, or its node has to know of the change.
CREATE TABLE session_epoch (
    is_only boolean NOT NULL DEFAULT true,
    epoch bigint NOT NULL,
    -- The epoch of the last removal of a session: whoever knows less reads everything anew.
    removal bigint NOT NULL,
    CONSTRAINT session_epoch_pkey PRIMARY KEY (is_only),
    CONSTRAINT session_epoch_is_one_row CHECK (is_only)
);
INSERT INTO session_epoch (epoch, removal) VALUES (0, 0);

CREATE FUNCTION expect_session_epoch(known bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM session_epoch WHERE is_only AND epoch = known;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'sessions have changed since epoch %', known USING ERRCODE = 'FE001';
    END IF;
END $$;

-- A function, because LOCK is refused at the head of a pipeline.
CREATE FUNCTION lock_session_epoch() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    LOCK TABLE session_epoch IN ACCESS EXCLUSIVE MODE;
END $$;

-- The unfinished jobs of a session. Those of the default one are not in it: they are most, and it has no end.
CREATE INDEX jobs_session ON jobs (tenant, session, id) WHERE session <> 'default';
