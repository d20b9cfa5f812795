-- Reads one host, known or not, with its latest decisions, the newest first. Locks nothing. $1 its origin,
-- $2 how many decisions. Columns as in list_hosts.sql; the condition is null when nothing is known.
SELECT $1::text, (SELECT condition FROM hosts WHERE origin = $1::text),
    (SELECT count(*)::integer FROM jobs WHERE state = 'running' AND origin = $1::text),
    ARRAY(
        SELECT decision FROM host_decisions WHERE origin = $1::text ORDER BY number DESC LIMIT $2::integer)
