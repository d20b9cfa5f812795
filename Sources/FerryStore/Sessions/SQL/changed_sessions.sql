-- Reads the sessions that have changed since epoch $1, or all sessions if one was removed since. Locks
-- nothing.
-- Returns at least one row; column 12 is the current epoch, column 13 the epoch of the last removal.
SELECT c.tenant, c.name, c.revision, c.epoch, c.created_at, c.updated_at, c.configuration, c.secrets,
    c.invalidation, c.invalidated_at, c.ended_at, c.flushed_at, e.epoch, e.removal
FROM session_epoch e LEFT JOIN session_configurations c
    ON c.epoch > CASE WHEN e.removal > $1::bigint THEN -1 ELSE $1::bigint END
WHERE e.is_only
