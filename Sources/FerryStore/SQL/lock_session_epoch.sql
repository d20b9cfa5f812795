-- Keeps jobs from being accepted until the commit, so that a session can be changed: waits for the
-- transactions that accept some right now. Locks: session_epoch, exclusively; before all else.
SELECT lock_session_epoch()
