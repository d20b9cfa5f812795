-- Removes rows of the log and rejected rows that are older than $1 seconds, and rows of session_receivers
-- that were not changed for as long. A receiver of a session with unfinished jobs, or whose final event is
-- not written, is checked again after the same time. Handles at most $2 rows of each table. Keeps the latest
-- row of the log, so that a reader that has seen it can continue. Records in a setting that rows were removed
-- (has_event.sql). An earlier spec goes after the events that happened before it was replaced: the oldest row
-- of the log is an hour younger, much longer than an event waits for its number.
-- Locks: the removed rows and that of the setting; skips rows of session_receivers that another transaction
-- has locked.
WITH old AS (
    DELETE FROM events WHERE id = ANY (ARRAY(
        SELECT id FROM events ORDER BY id LIMIT $2::integer))
        AND last_at < now() - make_interval(secs => $1::double precision)
        AND id < (SELECT id FROM events ORDER BY id DESC LIMIT 1)
    RETURNING id
), noted AS (
    INSERT INTO settings (name, value) SELECT 'events_removed', ''::bytea FROM old LIMIT 1
    ON CONFLICT (name) DO NOTHING
), due AS MATERIALIZED (
    SELECT r.tenant, r.session, r.url, coalesce((
        SELECT s.unfinished > 0 OR s.is_drained FROM sessions s
        WHERE s.tenant = r.tenant AND s.name = r.session), false) AS is_awaited
    FROM session_receivers r
    WHERE r.changed_at < now() - make_interval(secs => $1::double precision)
    ORDER BY r.changed_at LIMIT $2::integer FOR UPDATE OF r SKIP LOCKED
), forgotten AS (
    DELETE FROM session_receivers r USING due d
    WHERE r.tenant = d.tenant AND r.session = d.session AND r.url = d.url AND NOT d.is_awaited
), kept AS (
    UPDATE session_receivers r SET changed_at = now() FROM due d
    WHERE r.tenant = d.tenant AND r.session = d.session AND r.url = d.url AND d.is_awaited
), rejected AS (
    DELETE FROM rejected_events WHERE position = ANY (ARRAY(
        SELECT position FROM rejected_events
        WHERE rejected_at < now() - make_interval(secs => $1::double precision) LIMIT $2::integer))
), replaced AS (
    DELETE FROM earlier_specs s USING (
        SELECT job, last_revision FROM earlier_specs
        WHERE replaced_at < now() - make_interval(secs => $1::double precision)
            AND replaced_at < (SELECT last_at FROM events ORDER BY id LIMIT 1) - interval '1 hour'
        ORDER BY replaced_at LIMIT $2::integer
    ) o
    WHERE s.job = ANY (ARRAY[o.job]) AND s.last_revision = o.last_revision
)
SELECT count(*) FROM old
