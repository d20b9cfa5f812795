-- Reads a page of a tenant's deliveries, newest first, with their tries in their order: a row for each try,
-- or one whose number is null. All in one snapshot: a page's end is found by its length, so nothing of it may
-- be missing. Locks nothing. $1 tenant, $2 only ids below this one, $3 job or null, $4 state or null, $5 how
-- many at most, $6 endpoint or null, $7 type or null.
SELECT d.id, d.event, d.type, d.tenant, d.session, d.job, d.sequence, d.occurred_at, d.url, d.state,
    d.next_try_at, d.endpoint, t.number, t.started_at, t.duration, t.status, t.error, t.answer
FROM (
    SELECT * FROM deliveries
    WHERE tenant = $1::text AND id < $2::uuid AND ($3::uuid IS NULL OR job = $3::uuid)
        AND ($4::text IS NULL OR state = $4::text::delivery_state)
        AND ($6::uuid IS NULL OR endpoint = $6::uuid) AND ($7::text IS NULL OR type = $7::text)
    ORDER BY id DESC LIMIT $5::integer
) d LEFT JOIN delivery_tries t ON t.delivery = ANY (ARRAY[d.id])
ORDER BY d.id DESC, t.number
