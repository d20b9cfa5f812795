-- Reads rows of the log in their order. Locks nothing. $1 only rows from this id on, $2 tenant or null, $3
-- session or null, $4 how many at most.
SELECT id, tenant, session, first_sequence, packed FROM events
WHERE id >= $1::uuid AND ($2::text IS NULL OR tenant = $2::text) AND ($3::text IS NULL OR session = $3::text)
ORDER BY id LIMIT $4::integer
