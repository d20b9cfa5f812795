-- Whether the log still has everything that follows a row, of whomever: the row itself; for zero, which is
-- what an empty log begins with, nothing may have been removed ever (remove_old_events.sql). Locks nothing.
-- $1 its id.
SELECT CASE WHEN $1::uuid = '00000000-0000-0000-0000-000000000000'::uuid
    THEN NOT EXISTS (SELECT FROM settings WHERE name = 'events_removed')
    ELSE EXISTS (SELECT FROM events WHERE id = $1::uuid) END
