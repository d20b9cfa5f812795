-- Adds rows to the log. Locks: the new rows.
-- One array element a row: $1 ids, $2 first sequence numbers, $3 time of the earliest event, $4 time of the
-- latest event, $5 types (bit mask), $6 tenants, $7 sessions, $8 packed events, $11 the time that no event of
-- the row shows an earlier one than, or null. One array element a mark: $9 jobs, $10 number of the row, from
-- 1.
INSERT INTO events (
    id, first_sequence, first_at, last_at, types, tenant, session, packed, marked, not_before)
SELECT u.id, u.first_sequence, u.first_at, u.last_at, u.types, u.tenant, u.session, u.packed, m.jobs,
    u.not_before
FROM unnest(
    $1::uuid[], $2::bigint[], $3::timestamptz[], $4::timestamptz[], $5::integer[], $6::text[], $7::text[],
    $8::bytea[], $11::timestamptz[]
) WITH ORDINALITY AS u(
    id, first_sequence, first_at, last_at, types, tenant, session, packed, not_before, number)
LEFT JOIN (
    SELECT number, array_agg(DISTINCT job) AS jobs
    FROM unnest($9::uuid[], $10::integer[]) AS m(job, number) GROUP BY number
) m ON m.number = u.number
