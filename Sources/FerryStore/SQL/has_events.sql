-- Whether there is work for the relay: events without a number, and sessions that have drained; and whether
-- any endpoint of any tenant wants events. Locks nothing.
SELECT EXISTS (SELECT FROM event_inbox), EXISTS (SELECT FROM sessions WHERE is_drained),
    EXISTS (SELECT FROM webhooks WHERE is_enabled AND deleted_at IS NULL)
