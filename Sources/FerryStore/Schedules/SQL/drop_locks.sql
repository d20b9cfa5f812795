-- Gives all advisory locks of this session back.
SELECT pg_advisory_unlock_all()
