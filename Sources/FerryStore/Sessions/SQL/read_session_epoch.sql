-- Reads the epoch of sessions, which each change raises. Locks nothing.
SELECT epoch FROM session_epoch WHERE is_only
