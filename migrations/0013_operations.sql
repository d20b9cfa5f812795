-- What operators tell the service to do, and what they have told it.

-- One row. Every change of it, or of what nodes are asked, raises its revision: who reads the smaller one has
-- read too early.
CREATE TABLE operations (
    is_only boolean NOT NULL DEFAULT true,
    revision bigint NOT NULL DEFAULT 0,
    -- Nothing new is leased on any node.
    paused boolean NOT NULL DEFAULT false,
    CONSTRAINT operations_pkey PRIMARY KEY (is_only),
    CONSTRAINT operations_has_one_row CHECK (is_only)
);
INSERT INTO operations DEFAULT VALUES;

-- The node is to lease nothing more, until it is told otherwise or its process is another one.
ALTER TABLE nodes ADD COLUMN drain_requested boolean NOT NULL DEFAULT false;

-- Requests of operators that change something; written before they are carried out.
CREATE TABLE audit (
    -- Ordered by time.
    id uuid NOT NULL,
    requested_at timestamptz NOT NULL,
    -- Null: the key of the configuration.
    key uuid,
    operation text NOT NULL,
    path text NOT NULL,
    request_id text NOT NULL,
    -- Of the answer; null: it is not known what became of the request.
    status integer,
    -- Of a request that was carried out.
    body text,
    CONSTRAINT audit_pkey PRIMARY KEY (id)
);
