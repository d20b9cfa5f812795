-- Moves the first queued jobs of claim queues to narrower ones. Jobs of a wide claim queue whose session or
-- scope is limited move to one of their origin. Jobs whose path has a limit of its own move to one of that
-- path, also from a claim queue of their origin. No attempt is used up. If the narrower claim queue does not
-- exist, this call creates it and the next one moves the jobs.
-- Locks: queued rows that no other transaction has locked, then the claim queues.
-- $1 claim queues without a path, $2 whether their session is limited, $3 rows of each to look at. Returns
-- the claim queue, then number (null: it was created), tenant, session, origin, node and path of the narrower
-- one, and the first urgency.
WITH met AS (
    SELECT w.queue, w.is_limited, j.id, j.tenant, j.session, j.origin, j.scope_path, j.urgency,
        coalesce(j.home::text, '') AS home
    FROM unnest($1::bigint[], $2::boolean[]) AS w(queue, is_limited) CROSS JOIN LATERAL (
        SELECT id, tenant, session, origin, scope_path, urgency, home FROM jobs
        WHERE state = 'queued' AND node IS NULL AND queue = w.queue
        ORDER BY urgency, id LIMIT $3::integer
        FOR UPDATE SKIP LOCKED) j
), placed AS MATERIALIZED (
    SELECT m.*, CASE WHEN h.limits_path THEN m.scope_path ELSE '' END AS path
    FROM met m CROSS JOIN LATERAL (
        SELECT count(*) > 0 AS limits, coalesce(bool_or(s.path <> ''), false) AS limits_path
        FROM host_limits s
        WHERE s.origin = m.origin AND s.tenant IN ('', m.tenant) AND s.path IN ('', m.scope_path)) h
    WHERE h.limits_path OR m.queue > 0 AND (m.is_limited OR h.limits)
), limited AS MATERIALIZED (
    SELECT p.*, l.id AS narrow FROM placed p LEFT JOIN LATERAL (
        SELECT l.id FROM claim_queues l
        WHERE l.tenant = p.tenant AND l.session = p.session AND l.origin = p.origin AND l.path = p.path
            AND l.home = p.home
        FOR KEY SHARE) l ON true
), made AS (
    INSERT INTO claim_queues (id, tenant, session, origin, path, home)
    SELECT -nextval('claim_queue_ids'), w.tenant, w.session, w.origin, w.path, w.home FROM (
        SELECT DISTINCT tenant, session, origin, path, home FROM limited WHERE narrow IS NULL
        ORDER BY tenant, session, origin, path, home) AS w
    ON CONFLICT (tenant, session, origin, path, home) DO NOTHING
), moved AS (
    UPDATE jobs j SET queue = l.narrow FROM limited l
    WHERE l.narrow IS NOT NULL AND j.id = ANY (ARRAY[l.id])
)
SELECT queue, narrow, tenant, session, origin, nullif(home, '')::uuid, path, min(urgency)
FROM limited GROUP BY queue, narrow, tenant, session, origin, path, home
