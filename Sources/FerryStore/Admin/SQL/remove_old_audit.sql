-- Removes rows of the audit log that are older than $1 seconds, and all but the latest $2. Locks: those rows.
DELETE FROM audit
WHERE requested_at < now() - make_interval(secs => $1::double precision)
    OR id <= (SELECT id FROM audit ORDER BY id DESC OFFSET $2::integer LIMIT 1)
