-- Returns whether there is work for the relay. Locks nothing.
-- $1 position after which the inbox is read, $2 whether this transaction gets an id.
-- Returns the first position in the inbox or null, whether sessions have drained, and whether any endpoint is
-- enabled. Then for `InboxLowWatermark`: the last position drawn, the oldest transaction that may still
-- commit, and with $2 this transaction's id, which is above those of all that have begun to write.
SELECT (SELECT position FROM event_inbox WHERE position > $1::bigint ORDER BY position LIMIT 1),
    EXISTS (SELECT FROM sessions WHERE is_drained),
    EXISTS (SELECT FROM webhooks WHERE is_enabled AND deleted_at IS NULL),
    (SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM event_inbox_position_seq),
    pg_snapshot_xmin(pg_current_snapshot())::text::bigint,
    CASE WHEN $2::boolean THEN pg_current_xact_id()::text::bigint END
