-- Returns how far claim_jobs.sql looks at most in wide claim queues where it steps over jobs. Locks nothing.
-- One array element a claim queue: $1 queues (column `queue`), $2 urgency of the first row. $3 number of
-- rows.
-- Returns the claim queues with more rows than that, and the urgency up to which the claim looks.
SELECT w.queue, w.urgency FROM unnest($1::bigint[], $2::timestamptz[]) AS a(queue, since) CROSS JOIN LATERAL (
    SELECT queue, urgency FROM jobs
    WHERE state = 'queued' AND node IS NULL AND queue = a.queue AND urgency >= a.since
    ORDER BY urgency, id OFFSET $3::integer LIMIT 1) w
