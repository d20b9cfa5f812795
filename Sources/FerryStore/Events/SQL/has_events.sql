-- Whether there is work for the relay: the first event behind $1 that has no number, or null, and whether
-- sessions have drained; and whether any endpoint of any tenant wants events. Then what the relay needs to
-- know of the positions (InboxFloor): the last that was drawn, the oldest transaction that may still
-- commit, and with $2 the number of this one, behind all that have begun to write. Locks nothing.
SELECT (SELECT position FROM event_inbox WHERE position > $1::bigint ORDER BY position LIMIT 1),
    EXISTS (SELECT FROM sessions WHERE is_drained),
    EXISTS (SELECT FROM webhooks WHERE is_enabled AND deleted_at IS NULL),
    (SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM event_inbox_position_seq),
    pg_snapshot_xmin(pg_current_snapshot())::text::bigint,
    CASE WHEN $2::boolean THEN pg_current_xact_id()::text::bigint END
