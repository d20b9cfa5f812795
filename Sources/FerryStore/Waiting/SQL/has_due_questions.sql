-- Returns whether a waiting job needs its question now, or has one that has expired. Locks nothing.
SELECT EXISTS (SELECT FROM jobs WHERE state = 'waiting' AND asks AND next_attempt_at <= now())
