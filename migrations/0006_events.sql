-- The log of events. A change writes what it says into `event_inbox`, in its own transaction; a relay takes
-- it from there, numbers it, keeps it in `events` and makes the deliveries.

ALTER TABLE jobs
    -- The types of events that the job's own webhook wants: a bit each (EventType.code). Null: none.
    ADD COLUMN wanted_events integer;

UPDATE jobs SET wanted_events = coalesce((
    SELECT bit_or(1 << CASE e.name WHEN 'job.resumed_at_offset' THEN 7 WHEN 'job.succeeded' THEN 9
        WHEN 'job.failed' THEN 10 WHEN 'job.cancelled' THEN 11 ELSE 0 END)
    FROM jsonb_array_elements_text(spec::jsonb -> 'webhook' -> 'events') AS e(name)
), (1 << 9) | (1 << 10) | (1 << 11))
WHERE jsonb_typeof(spec::jsonb -> 'webhook') = 'object';

-- One event as EventRecord in the source reads it. `wanted`: wanted_events of the job; `job`: all zero when
-- it is about a session; `state`: the job's afterwards; `detail`: what the type says, or null.
CREATE FUNCTION event_pack(
    type integer, wanted integer, job uuid, at timestamptz, attempt integer, revision integer,
    state job_state, reason waiting_for, detail bytea
) RETURNS bytea LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT int4send(
        (type << 24)
        | ((coalesce(wanted >> type, 0) & 1) << 16)
        | (CASE WHEN wanted & 12288 <> 0 THEN 131072 ELSE 0 END)
        | (CASE state WHEN 'waiting' THEN 256 WHEN 'queued' THEN 512 WHEN 'running' THEN 768
            WHEN 'suspended' THEN 1024 WHEN 'succeeded' THEN 1280 WHEN 'failed' THEN 1536
            WHEN 'cancelled' THEN 1792 ELSE 0 END)
        | (CASE reason WHEN 'begin_date' THEN 1 WHEN 'discretionary' THEN 2 WHEN 'connectivity' THEN 3
            WHEN 'retry' THEN 4 WHEN 'dependency' THEN 5 WHEN 'challenge' THEN 6
            WHEN 'confirmation' THEN 7 ELSE 0 END))
        || uuid_send(job) || int8send((extract(epoch FROM at) * 1000000)::bigint)
        || int4send(attempt) || int4send(revision)
        || int4send(coalesce(length(detail), 0)) || coalesce(detail, ''::bytea)
$$;

-- Events that have no number yet: what one statement said of one session.
CREATE TABLE event_inbox (
    -- Grows from a change to every change that could see it.
    position bigint GENERATED ALWAYS AS IDENTITY,
    tenant text NOT NULL,
    session text NOT NULL,
    -- One EventRecord after another.
    packed bytea NOT NULL,
    CONSTRAINT event_inbox_pkey PRIMARY KEY (position)
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off,
        toast.autovacuum_vacuum_scale_factor = 0.01, toast.autovacuum_vacuum_threshold = 1000,
        toast.autovacuum_vacuum_cost_delay = 0, toast.vacuum_truncate = off);
-- It stays for a moment: compression would cost more than it saves.
ALTER TABLE event_inbox ALTER COLUMN packed SET STORAGE EXTERNAL;

-- The log: what one pass of the relay numbered of one session. Rows never change, and go after the retention.
CREATE TABLE events (
    -- Of the first event; each of the others is greater by one. In the order of numbering, over all sessions.
    id uuid NOT NULL,
    first_sequence bigint NOT NULL,
    -- When the earliest and the latest happened; a row spans ten seconds at most.
    first_at timestamptz NOT NULL,
    last_at timestamptz NOT NULL,
    -- The types in it: a bit each.
    types integer NOT NULL,
    tenant text NOT NULL,
    session text NOT NULL,
    -- Jobs with an event whose time their own rows do not tell.
    marked uuid[],
    packed bytea NOT NULL,
    CONSTRAINT events_pkey PRIMARY KEY (id)
) WITH (autovacuum_vacuum_insert_scale_factor = 0.1);
-- Lists, newest first; the first one partial as jobs_tenant.
CREATE INDEX events_tenant ON events (tenant, id) WHERE tenant IS NOT NULL;
CREATE INDEX events_session ON events (tenant, session, id);
-- The events of a job: by the times that its row names, and by marks.
CREATE INDEX events_time ON events (tenant, session, last_at);
CREATE INDEX events_marked ON events USING gin (marked) WHERE marked IS NOT NULL;

ALTER TABLE sessions
    -- Jobs that were created and have not ended, by the events that have numbers.
    ADD COLUMN unfinished bigint NOT NULL DEFAULT 0,
    -- They have become none, and nobody has been told.
    ADD COLUMN is_drained boolean NOT NULL DEFAULT false;
CREATE INDEX sessions_drained ON sessions (tenant, name) WHERE is_drained;

INSERT INTO sessions AS s (tenant, name, last_sequence, unfinished)
SELECT tenant, session, 0, count(*) FROM jobs GROUP BY tenant, session
ON CONFLICT (tenant, name) DO UPDATE SET unfinished = excluded.unfinished;

-- Webhooks of jobs that want the events of their session: each URL once.
CREATE TABLE session_receivers (
    tenant text NOT NULL,
    session text NOT NULL,
    url text NOT NULL,
    -- The latest job that named it; its secret signs.
    job uuid NOT NULL,
    -- A bit each type.
    wanted integer NOT NULL,
    changed_at timestamptz NOT NULL,
    CONSTRAINT session_receivers_pkey PRIMARY KEY (tenant, session, url)
);

-- Null: an event of a session.
ALTER TABLE deliveries ALTER COLUMN job DROP NOT NULL;
-- Whether an event of a session is still on its way.
CREATE INDEX deliveries_session ON deliveries (tenant, session) WHERE state = 'pending';
