-- Reads whether any endpoint of any tenant wants events. Locks nothing.
SELECT EXISTS (SELECT FROM webhooks WHERE is_enabled AND deleted_at IS NULL)
