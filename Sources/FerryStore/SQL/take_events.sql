-- Takes events that have no number yet, the earliest first. Locks: those rows. $1 how many rows at most.
WITH taken AS (
    DELETE FROM event_inbox WHERE position = ANY (ARRAY(
        SELECT position FROM event_inbox ORDER BY position LIMIT $1::integer))
    RETURNING position, tenant, session, packed
)
SELECT tenant, session, packed FROM taken ORDER BY position
