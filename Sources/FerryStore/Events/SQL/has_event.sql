-- Returns whether the log still has everything after a row, of any tenant: the row itself is there. For id
-- zero, with which an empty log begins, no row may ever have been removed (remove_old_events.sql). Locks
-- nothing. $1 id of the row.
SELECT CASE WHEN $1::uuid = '00000000-0000-0000-0000-000000000000'::uuid
    THEN NOT EXISTS (SELECT FROM settings WHERE name = 'events_removed')
    ELSE EXISTS (SELECT FROM events WHERE id = $1::uuid) END
