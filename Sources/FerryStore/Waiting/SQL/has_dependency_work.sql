-- Returns whether dependency_outbox has rows. Locks nothing.
SELECT EXISTS (SELECT FROM dependency_outbox)
