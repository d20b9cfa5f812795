-- Keeps jobs from being accepted until the commit, so that a session can be changed: waits for the
-- transactions that accept some right now, but not for long. Locks: session_epoch, against other changes and
-- whoever accepts jobs; before all else.
SELECT lock_session_epoch()
