-- Who may call, and what the service keeps about itself.

CREATE TYPE key_role AS ENUM ('viewer', 'client', 'admin');

CREATE TABLE api_keys (
    id uuid NOT NULL,
    tenant text NOT NULL,
    role key_role NOT NULL,
    name text NOT NULL,
    -- SHA-256 of the key; the key itself is shown once and kept nowhere.
    hash bytea NOT NULL,
    created_at timestamptz NOT NULL,
    revoked_at timestamptz,
    CONSTRAINT api_keys_pkey PRIMARY KEY (id),
    CONSTRAINT api_keys_hash_is_unique UNIQUE (hash)
);

CREATE TABLE settings (
    name text NOT NULL,
    value bytea NOT NULL,
    CONSTRAINT settings_pkey PRIMARY KEY (name)
);
