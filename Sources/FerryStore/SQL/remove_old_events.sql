-- Removes rows of the log and rejected ones that are older than $1 seconds, and what session_receivers has
-- forgotten to ask for, at most $2 of each. Locks: those rows.
WITH old AS (
    DELETE FROM events WHERE id = ANY (ARRAY(
        SELECT id FROM events ORDER BY id LIMIT $2::integer))
        AND last_at < now() - make_interval(secs => $1::double precision)
    RETURNING id
), forgotten AS (
    DELETE FROM session_receivers WHERE (tenant, session, url) IN (
        SELECT tenant, session, url FROM session_receivers
        WHERE changed_at < now() - make_interval(secs => $1::double precision) LIMIT $2::integer)
), rejected AS (
    DELETE FROM rejected_events WHERE position IN (
        SELECT position FROM rejected_events
        WHERE rejected_at < now() - make_interval(secs => $1::double precision) LIMIT $2::integer)
)
SELECT count(*) FROM old
