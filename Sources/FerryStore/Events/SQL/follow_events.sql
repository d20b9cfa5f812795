-- Reads rows of the log in their order. Locks nothing.
-- $1 lower bound of ids (inclusive), $2 tenant or null, $3 session or null, $4 maximum number of rows. A
-- branch whose condition names only parameters is not executed if the condition is false; compared as in
-- list_jobs.sql.
(SELECT id, tenant, session, first_sequence, packed, not_before FROM events
WHERE $2::text IS NULL AND id >= $1::uuid
ORDER BY id LIMIT $4::integer)
UNION ALL
(SELECT id, tenant, session, first_sequence, packed, not_before FROM events
WHERE $3::text IS NULL AND tenant = ANY (ARRAY[$2::text]) AND id >= $1::uuid
ORDER BY tenant, id LIMIT $4::integer)
UNION ALL
(SELECT id, tenant, session, first_sequence, packed, not_before FROM events
WHERE tenant = $2::text AND (session, id) >= ($3::text, $1::uuid)
    AND (session, id) <= ($3::text, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
ORDER BY session, id LIMIT $4::integer)
ORDER BY id LIMIT $4::integer
