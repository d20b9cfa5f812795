-- Moves queued jobs out of claim queues that do not exist, to those of their names. Locks: the jobs, then the
-- claim queues. $1 the missing claim queues, $2 how many jobs at most. Returns how many were moved.
WITH lost AS MATERIALIZED (
    SELECT q.id, q.tenant, q.session, CASE WHEN q.queue < 0 THEN q.origin ELSE '' END AS origin,
        coalesce(q.home::text, '') AS home
    FROM unnest($1::bigint[]) AS w(queue) CROSS JOIN LATERAL (
        SELECT id, queue, tenant, session, origin, home FROM jobs
        WHERE state = 'queued' AND node IS NULL AND queue = w.queue
        ORDER BY urgency, id LIMIT $2::integer FOR UPDATE SKIP LOCKED) q
    LIMIT $2::integer
), made AS (
    INSERT INTO claim_queues AS l (id, tenant, session, origin, home)
    SELECT CASE WHEN u.origin = '' THEN nextval('claim_queue_ids') ELSE -nextval('claim_queue_ids') END,
        u.tenant, u.session, u.origin, u.home
    FROM (
        SELECT DISTINCT tenant, session, origin, home FROM lost ORDER BY tenant, session, origin, home) AS u
    ON CONFLICT (tenant, session, origin, path, home) DO UPDATE SET used_at = excluded.used_at
    RETURNING id, tenant, session, origin, home
), changed AS (
    UPDATE jobs j SET queue = m.id FROM lost o
    JOIN made m ON m.tenant = o.tenant AND m.session = o.session AND m.origin = o.origin
        AND m.home = o.home
    WHERE j.id = ANY (ARRAY[o.id]) RETURNING j.id
)
SELECT count(*) FROM changed
