-- What the inbox of events had that the relay could not deal with: kept for whoever looks into it, as long as
-- events are.
CREATE TABLE rejected_events (
    rejected_at timestamptz NOT NULL DEFAULT now(),
    position bigint NOT NULL,
    -- They are in the log; only their deliveries were not made.
    is_numbered boolean NOT NULL,
    tenant text NOT NULL,
    session text NOT NULL,
    packed bytea NOT NULL,
    -- What the database said.
    error text NOT NULL,
    CONSTRAINT rejected_events_pkey PRIMARY KEY (position)
);
