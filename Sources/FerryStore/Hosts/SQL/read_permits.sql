-- Computes how many jobs may be claimed from the narrow claim queues that lock_claim_queues.sql has locked:
-- what their limits leave (view narrow_claim_queues), and none of a claim queue for another node, unless that
-- node has been silent for $5 seconds; none at all while another node that is alive has all permits. Locks
-- nothing.
-- $1 claim queues (column `queue`), $2 jobs wanted from each, $3 connections per host of their sessions or
-- null, $4 this node, $5 seconds.
-- Keeps the result for claim_limited_jobs.sql in the setting ferry.permits, and returns it: claim queues,
-- numbers of jobs, and until when no job of each may begin: the end of the hold, at most a year ahead, or the
-- time at which its rates allow the next request.
WITH permits AS MATERIALIZED (
    SELECT a.queue, n.tenant, n.origin, n.path, n.blocked_until,
        CASE
            WHEN n.blocked_until IS NOT NULL OR EXISTS (
                SELECT FROM nodes w WHERE w.has_permits AND w.id <> $4::uuid
                    AND w.heartbeat_at > now() - make_interval(secs => $5::double precision)) THEN 0
            WHEN n.home NOT IN ('', $4::uuid::text) AND EXISTS (
                SELECT FROM nodes w WHERE w.id = nullif(n.home, '')::uuid AND w.is_worker
                    AND w.heartbeat_at > now() - make_interval(secs => $5::double precision)) THEN 0
            ELSE greatest(0, least(
                a.count,
                CASE WHEN a.session_limit IS NOT NULL THEN a.session_limit - n.session_count END,
                n.room, floor(n.request_credit)::bigint))
        END AS count
    FROM unnest($1::bigint[], $2::integer[], $3::integer[]) AS a(queue, count, session_limit)
        JOIN narrow_claim_queues n ON n.queue = ANY (ARRAY[a.queue])
    WHERE a.queue = ANY (string_to_array(current_setting('ferry.claim_queues'), ',')::bigint[])
), told AS (
    SELECT p.queue, p.count,
        CASE WHEN p.blocked_until IS NOT NULL THEN least(p.blocked_until, now() + '1 year') ELSE (
            SELECT now() + make_interval(secs => greatest(
                0.01, least(max((1 + p.count - c.credit) / c.request_rate), 86400)))
            FROM (
                SELECT s.request_rate,
                    request_credit(s.request_rate, s.request_credit, s.request_credit_at) AS credit
                FROM host_limits s
                WHERE s.origin = p.origin AND s.tenant IN ('', p.tenant) AND s.path IN ('', p.path)
                    AND s.request_rate IS NOT NULL) c
            WHERE c.credit - p.count < 1 HAVING count(*) > 0)
        END AS blocked_until
    FROM permits p
)
SELECT array_agg(queue), array_agg(count::integer), array_agg(blocked_until),
    set_config('ferry.permits', coalesce(
        string_agg(queue::text, ',') FILTER (WHERE count > 0) || ';'
        || string_agg(count::text, ',') FILTER (WHERE count > 0), ';'), true)
FROM told
