-- Returns how far claim_jobs.sql looks at most in wide claim queues where it steps over jobs. Locks nothing.
-- One array element a claim queue: $1 queues (column `lot`), $2 urgency of the first row. $3 number of rows.
-- Returns the claim queues with more rows than that, and the urgency up to which the claim looks.
SELECT w.lot, w.urgency FROM unnest($1::bigint[], $2::timestamptz[]) AS a(lot, since) CROSS JOIN LATERAL (
    SELECT lot, urgency FROM jobs
    WHERE state = 'queued' AND node IS NULL AND lot = a.lot AND urgency >= a.since
    ORDER BY urgency, id OFFSET $3::integer LIMIT 1) w
