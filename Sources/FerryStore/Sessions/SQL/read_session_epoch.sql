-- Reads how often sessions have changed. Locks nothing.
SELECT epoch FROM session_epoch WHERE is_only
