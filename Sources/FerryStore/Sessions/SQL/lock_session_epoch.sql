-- Stops the acceptance of jobs until the commit, so that a session can be changed. Waits for transactions
-- that accept jobs at this moment, for a limited time.
-- Locks: session_epoch, against other changes and the acceptance of jobs; before all other locks.
SELECT lock_session_epoch()
