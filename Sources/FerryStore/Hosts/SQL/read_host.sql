-- Reads one host, with or without a row, and its latest decisions, newest first. Locks nothing.
-- $1 origin, $2 maximum number of decisions. Columns as in list_hosts.sql; the condition is null without a
-- row.
SELECT $1::text, (SELECT condition FROM hosts WHERE origin = $1::text),
    (SELECT count(*)::integer FROM jobs WHERE state = 'running' AND node IS NOT NULL AND origin = $1::text),
    ARRAY(
        SELECT decision FROM host_decisions WHERE origin = $1::text ORDER BY number DESC LIMIT $2::integer)
