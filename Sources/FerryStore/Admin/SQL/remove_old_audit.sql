-- Removes what operators have asked for more than $1 seconds ago, and all but the latest $2. Locks: those
-- rows.
DELETE FROM audit
WHERE requested_at < now() - make_interval(secs => $1::double precision)
    OR id <= (SELECT id FROM audit ORDER BY id DESC OFFSET $2::integer LIMIT 1)
