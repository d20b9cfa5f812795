-- Waits until no other transaction of a bulk operation submits jobs of a tenant again. The next statement
-- then finds what that one has submitted (read_retry_sources.sql). Locks: an advisory lock until the
-- transaction ends. $1 tenant.
SELECT pg_advisory_xact_lock(hashtextextended('ferry retries of ' || $1::text, 0))
