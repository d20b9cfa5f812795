-- Releases all advisory locks of this database session.
SELECT pg_advisory_unlock_all()
