-- Reads a page of the deliveries of a job or an endpoint, newest first, with their tries in order: a row for
-- each try, or one whose try number is null. Locks nothing. One snapshot, since the length of the page tells
-- its end: no row may be missing.
-- $1 tenant, $2 upper bound of ids (exclusive), $3 job or null, $4 state or null, $5 maximum number of
-- deliveries, $6 endpoint or null, $7 type or null, $8 maximum number of deliveries read.
-- The last delivery read ($8) is always returned, since its id is where the next page begins; column 1 is
-- null if the filters exclude it. Then come the number of the delivery and its receiver queue. A branch
-- whose condition
-- names only parameters is not executed if the condition is false; compared as in list_jobs.sql.
SELECT c.id, CASE WHEN c.fits THEN c.event END, c.type, c.tenant, c.session, c.job, c.sequence, c.occurred_at,
    c.url, c.state, c.next_try_at, c.endpoint, t.number, t.started_at, t.duration, t.status, t.error,
    t.answer, c.number, c.receiver
FROM (
    SELECT d.id, d.event, d.type, d.tenant, d.session, d.job, d.sequence, d.occurred_at, d.url, d.state,
        d.next_try_at, d.endpoint, d.fits, d.number, d.of, d.receiver
    FROM (
        SELECT u.*, u.tenant = $1::text AND ($4::text IS NULL OR u.state = $4::text::delivery_state)
                AND ($7::text IS NULL OR u.type = $7::text) AS fits,
            row_number() OVER (ORDER BY u.of DESC, u.id DESC) AS number
        FROM (
            (SELECT job AS of, id, event, type, tenant, session, job, sequence, occurred_at, url, state,
                next_try_at, endpoint, receiver
            FROM deliveries
            WHERE $6::uuid IS NULL AND job = ANY (ARRAY[$3::uuid]) AND id < $2::uuid
            ORDER BY job DESC, id DESC LIMIT $8::integer)
            UNION ALL
            (SELECT endpoint, id, event, type, tenant, session, job, sequence, occurred_at, url, state,
                next_try_at, endpoint, receiver
            FROM deliveries
            WHERE $3::uuid IS NULL AND endpoint = ANY (ARRAY[$6::uuid]) AND endpoint IS NOT NULL
                AND id < $2::uuid
            ORDER BY endpoint DESC, id DESC LIMIT $8::integer)
            ORDER BY of DESC, id DESC LIMIT $8::integer
        ) u
    ) d
    WHERE d.fits OR d.number = $8::integer
    ORDER BY d.of DESC, d.id DESC LIMIT $5::integer
) c LEFT JOIN LATERAL (
    SELECT number, started_at, duration, status, error, answer FROM delivery_tries
    WHERE delivery = c.id AND c.fits OFFSET 0
) t ON true
ORDER BY c.id DESC, t.number
