-- Moves running jobs of a node to narrow claim queues if a limit applies to them, so that limits count them.
-- They began before this node knew of the limit. Claim queues as in divert_jobs.sql, without a path.
-- Locks: those rows, then the claim queues. $1 the node, $2 wide claim queues whose session is limited.
-- Returns how many jobs are left for the next call.
WITH limited AS MATERIALIZED (
    SELECT j.id, j.tenant, j.session, j.origin, j.home, l.id AS narrow
    FROM (
        SELECT j.id, j.tenant, j.session, j.origin, coalesce(j.home::text, '') AS home FROM jobs j
        WHERE j.state = 'running' AND j.node = $1::uuid AND j.queue > 0 AND (
            j.queue = ANY (ARRAY(
                SELECT s.id FROM claim_queues w JOIN claim_queues s
                    ON s.tenant = w.tenant AND s.session = w.session AND s.origin = w.origin
                WHERE w.id = ANY ($2::bigint[])))
            OR EXISTS (
                SELECT FROM host_limits s
                WHERE s.origin = j.origin AND s.tenant IN ('', j.tenant) AND s.path IN ('', j.scope_path)
                    AND s.connection_limit IS NOT NULL))
        FOR UPDATE SKIP LOCKED) j
    LEFT JOIN LATERAL (
        SELECT l.id FROM claim_queues l
        WHERE l.tenant = j.tenant AND l.session = j.session AND l.origin = j.origin AND l.path = ''
            AND l.home = j.home
        FOR KEY SHARE) l ON true
), made AS (
    INSERT INTO claim_queues (id, tenant, session, origin, home)
    SELECT -nextval('claim_queue_ids'), w.tenant, w.session, w.origin, w.home FROM (
        SELECT DISTINCT tenant, session, origin, home FROM limited WHERE narrow IS NULL
        ORDER BY tenant, session, origin, home) AS w
    ON CONFLICT (tenant, session, origin, path, home) DO NOTHING
), moved AS (
    UPDATE jobs j SET queue = l.narrow FROM limited l
    WHERE l.narrow IS NOT NULL AND j.id = ANY (ARRAY[l.id])
)
SELECT count(*) FILTER (WHERE narrow IS NULL) FROM limited
