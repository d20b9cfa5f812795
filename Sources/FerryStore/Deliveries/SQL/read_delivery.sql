-- Reads a delivery. Locks nothing. $1 id, $2 tenant. Rows as in list_deliveries.sql.
SELECT d.id, d.event, d.type, d.tenant, d.session, d.job, d.sequence, d.occurred_at, d.url, d.state,
    d.next_try_at, d.endpoint, t.number, t.started_at, t.duration, t.status, t.error, t.answer,
    NULL::bigint, d.receiver
FROM deliveries d LEFT JOIN LATERAL (SELECT * FROM delivery_tries WHERE delivery = d.id OFFSET 0) t ON true
WHERE d.id = $1::uuid AND d.tenant = $2::text
ORDER BY t.number
