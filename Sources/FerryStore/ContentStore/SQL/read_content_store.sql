-- Reads the state of the content store. Locks nothing. Returns the generation of the database, and when the
-- last sweep began.
SELECT generation, swept_at FROM content_store WHERE is_only
