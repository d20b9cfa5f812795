-- Reads rows of a tenant's log, newest first. Locks nothing. $1 tenant, $2 only rows up to this id, $3
-- session or null, $4 types (a bit each), $5 since when or null, $6 how many at most, $7 only rows from this
-- id on or null: a row's number is made after what it tells of.
SELECT id, tenant, session, first_sequence, packed FROM events
WHERE tenant = $1::text AND id <= $2::uuid AND ($3::text IS NULL OR session = $3::text)
    AND types & $4::integer <> 0 AND ($5::timestamptz IS NULL OR last_at >= $5::timestamptz)
    AND ($7::uuid IS NULL OR id >= $7::uuid)
ORDER BY id DESC LIMIT $6::integer
