-- Removes rows of the log and rejected ones that are older than $1 seconds, and what session_receivers has
-- remembered for as long of sessions that have come to an end meanwhile; of one that has unfinished jobs, or
-- whose end is not told, it is looked at again after the same time. At most $2 of each. The latest row of the
-- log stays: who has seen it has seen all. Says in a setting that rows have been removed, for has_event.sql.
-- Locks: those rows, that of the setting.
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
    DELETE FROM rejected_events WHERE position IN (
        SELECT position FROM rejected_events
        WHERE rejected_at < now() - make_interval(secs => $1::double precision) LIMIT $2::integer)
)
SELECT count(*) FROM old
