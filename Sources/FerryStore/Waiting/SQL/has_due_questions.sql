-- Says whether something is to be asked about waiting jobs now, or nobody has answered in time. Locks
-- nothing.
SELECT EXISTS (SELECT FROM jobs WHERE state = 'waiting' AND asks AND next_attempt_at <= now())
