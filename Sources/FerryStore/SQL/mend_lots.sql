-- Gives queued jobs whose lots are not there any more those of their names. Locks: the jobs, then the lots.
-- $1 the lots that are missing, $2 how many jobs at most. Returns how many were changed.
WITH lost AS MATERIALIZED (
    SELECT id, tenant, session, CASE WHEN lot < 0 THEN origin ELSE '' END AS origin FROM jobs
    WHERE state = 'queued' AND lot = ANY ($1::bigint[]) ORDER BY id LIMIT $2::integer FOR UPDATE SKIP LOCKED
), made AS (
    INSERT INTO lots AS l (id, tenant, session, origin)
    SELECT CASE WHEN u.origin = '' THEN nextval('lot_numbers') ELSE -nextval('lot_numbers') END, u.tenant,
        u.session, u.origin
    FROM (SELECT DISTINCT tenant, session, origin FROM lost ORDER BY tenant, session, origin) AS u
    ON CONFLICT (tenant, session, origin) DO UPDATE SET used_at = excluded.used_at
    RETURNING id, tenant, session, origin
), changed AS (
    UPDATE jobs j SET lot = m.id FROM lost o
    JOIN made m ON m.tenant = o.tenant AND m.session = o.session AND m.origin = o.origin
    WHERE j.id = ANY (ARRAY[o.id]) RETURNING j.id
)
SELECT count(*) FROM changed
