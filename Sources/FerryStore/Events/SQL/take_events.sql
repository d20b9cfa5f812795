-- Takes events without numbers from the inbox, earliest first. Locks: the deleted rows.
-- $1 maximum number of rows, $2 maximum bytes of events (the first row is taken whatever its size), $3
-- position after which the inbox is read, $4 tenants whose rows are skipped, $5 the only tenant whose rows
-- are taken, or null.
-- Also returns whether there may be more rows, and the group of the row or null.
WITH next AS MATERIALIZED (
    SELECT position, octet_length(packed) AS length FROM event_inbox
    WHERE position > $3::bigint AND tenant <> ALL ($4::text[]) AND ($5::text IS NULL OR tenant = $5::text)
    ORDER BY position LIMIT $1::integer
), fitting AS MATERIALIZED (
    SELECT position FROM (
        SELECT position, sum(length) OVER (ORDER BY position) - length AS before FROM next
    ) AS n WHERE before < $2::bigint
), taken AS (
    DELETE FROM event_inbox WHERE position = ANY (ARRAY(SELECT position FROM fitting))
    RETURNING position, tenant, session, packed, job_group
)
SELECT tenant, session, packed,
    (SELECT count(*) FROM next) = $1::integer
        OR (SELECT count(*) FROM fitting) < (SELECT count(*) FROM next),
    position, job_group
FROM taken ORDER BY position
