-- Deletes uploads that their stores have removed, or whose last try has failed. Locks: these.
-- $1 their jobs.
DELETE FROM abandoned_uploads WHERE job = ANY ($1::uuid[])
