-- Whether there is work for the relay: events without a number, and sessions that have drained. Locks
-- nothing.
SELECT EXISTS (SELECT FROM event_inbox), EXISTS (SELECT FROM sessions WHERE is_drained)
