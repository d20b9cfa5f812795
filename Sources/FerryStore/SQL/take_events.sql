-- Takes events that have no number yet, the earliest first. Locks: those rows. $1 how many rows at most, $2
-- how many bytes of events (the first row is taken however long it is), $3 the position behind which they
-- are. Returns also whether there may be more.
WITH next AS MATERIALIZED (
    SELECT position, octet_length(packed) AS length FROM event_inbox WHERE position > $3::bigint
    ORDER BY position LIMIT $1::integer
), fitting AS MATERIALIZED (
    SELECT position FROM (
        SELECT position, sum(length) OVER (ORDER BY position) - length AS before FROM next
    ) AS n WHERE before < $2::bigint
), taken AS (
    DELETE FROM event_inbox WHERE position = ANY (ARRAY(SELECT position FROM fitting))
    RETURNING position, tenant, session, packed
)
SELECT tenant, session, packed,
    (SELECT count(*) FROM next) = $1::integer OR (SELECT count(*) FROM fitting) < (SELECT count(*) FROM next)
FROM taken ORDER BY position
