-- Lots: what queued jobs are claimed from, so that a claim reads the rows that it takes and no others.

-- The number is positive for all that is queued in a session and nothing limits (`origin` is empty then), and
-- negative for one origin in a session, once something limits that: the session's connections per host, or a
-- row in `hosts`. What runs of a narrow lot is counted by an index; of a wide one nobody counts.
CREATE TABLE lots (
    id bigint NOT NULL,
    tenant text NOT NULL,
    session text NOT NULL,
    -- scheme://host:port
    origin text NOT NULL DEFAULT '',
    -- When a node has last learned of it: narrow lots without jobs are removed some time later.
    used_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT lots_pkey PRIMARY KEY (id),
    CONSTRAINT lots_name_is_unique UNIQUE (tenant, session, origin),
    CONSTRAINT lots_sign_is_width CHECK ((id > 0) = (origin = ''))
);
CREATE SEQUENCE lot_numbers;
-- Housekeeping removes the oldest narrow ones.
CREATE INDEX lots_used ON lots (used_at) WHERE id < 0;

ALTER TABLE jobs
    ADD COLUMN lot bigint,
    -- The first goes first: when the job was to begin, less the head start that its priority gives. It ages
    -- by itself, and no row is written for it.
    ADD COLUMN urgency timestamptz;
INSERT INTO lots (id, tenant, session)
SELECT nextval('lot_numbers'), tenant, session FROM (SELECT DISTINCT tenant, session FROM jobs) AS known;
UPDATE jobs j SET lot = l.id, urgency = j.created_at - make_interval(secs => 600 * (1 + j.priority))
FROM lots l WHERE l.tenant = j.tenant AND l.session = j.session;
ALTER TABLE jobs ALTER COLUMN lot SET NOT NULL, ALTER COLUMN urgency SET NOT NULL;

DROP INDEX jobs_queued;
-- The claim reads the best rows of a lot from here, without a sort; who looks for lots skips from one to the
-- next.
CREATE INDEX jobs_queued ON jobs (lot, urgency, id) WHERE state = 'queued';
-- What runs of an origin, and of a lot: never more than a limit, as far as it is limited.
CREATE INDEX jobs_permits ON jobs (origin, lot) WHERE state = 'running' AND lot < 0;
-- Whether a narrow lot has jobs. Its condition says what `lot < 0` says, in words that no other statement
-- uses, so that what runs is never counted with it.
CREATE INDEX jobs_narrow ON jobs (lot) WHERE (lot < 0) IS TRUE;
