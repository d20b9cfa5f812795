-- Reads rows of a tenant's log, newest first. Locks nothing.
-- $1 tenant, $2 upper bound of ids (inclusive), $3 session or null, $4 types (bit mask), $5 earliest time
-- that events show or null, $6 maximum number of rows returned, $7 lower bound of ids (inclusive) or null:
-- the id of a row is made after its events happen, $8 maximum number of rows read.
-- The last row read ($8) is always returned, since its id is where the next read begins; its packed events
-- are null if the filters exclude it. The last column is the number of the row in this read. A branch whose
-- condition names only parameters is not executed if the condition is false; compared as in list_jobs.sql.
SELECT e.id, e.tenant, e.session, e.first_sequence, CASE WHEN e.fits THEN e.packed END, e.not_before,
    e.number
FROM (
    SELECT u.of, u.id, u.tenant, u.session, u.first_sequence, u.packed, u.not_before,
        u.types & $4::integer <> 0 AND (
            $5::timestamptz IS NULL OR greatest(u.last_at, u.not_before) >= $5::timestamptz) AS fits,
        row_number() OVER (ORDER BY u.of DESC, u.id DESC) AS number
    FROM (
        (SELECT tenant AS of, id, tenant, session, first_sequence, packed, not_before, types, last_at
        FROM events
        WHERE $3::text IS NULL AND tenant = ANY (ARRAY[$1::text]) AND id <= $2::uuid
            AND id >= coalesce($7::uuid, '00000000-0000-0000-0000-000000000000')
        ORDER BY tenant DESC, id DESC LIMIT $8::integer)
        UNION ALL
        (SELECT session, id, tenant, session, first_sequence, packed, not_before, types, last_at FROM events
        WHERE $3::text IS NOT NULL AND tenant = $1::text AND (session, id) <= ($3::text, $2::uuid)
            AND (session, id) >= ($3::text, '00000000-0000-0000-0000-000000000000')
        ORDER BY session DESC, id DESC LIMIT $8::integer)
        ORDER BY of DESC, id DESC LIMIT $8::integer
    ) u
) e
WHERE e.fits OR e.number = $8::integer
ORDER BY e.of DESC, e.id DESC LIMIT $6::integer
