-- Checks what must hold for the rows of all tables, in one snapshot: rules that no constraint enforces. Reads
-- all jobs, finished jobs, deliveries and events. Locks nothing.
-- Returns for each broken rule its text, the number of rows that break it, and one of them.
WITH told AS (
    -- All events (EventRecord in the source).
    SELECT e.first_sequence + r.number AS sequence,
        -- The earliest events of the session were removed.
        min(e.first_sequence) OVER (PARTITION BY e.tenant, e.session) > 1 AS is_cut,
        get_byte(e.packed, r.start) AS type, get_byte(e.packed, r.start + 2) AS state,
        substring(e.packed FROM r.start + 5 FOR 16) AS job,
        ('x' || encode(substring(e.packed FROM r.start + 21 FOR 8), 'hex'))::bit(64)::bigint AS at,
        ('x' || encode(substring(e.packed FROM r.start + 29 FOR 4), 'hex'))::bit(32)::integer AS attempt
    FROM events e CROSS JOIN LATERAL (
        WITH RECURSIVE record AS (
            SELECT 0 AS start, 0 AS number
            UNION ALL
            SELECT r.start + 40 + (get_byte(e.packed, r.start + 36) << 24)
                + (get_byte(e.packed, r.start + 37) << 16) + (get_byte(e.packed, r.start + 38) << 8)
                + get_byte(e.packed, r.start + 39), r.number + 1
            FROM record r WHERE r.start < length(e.packed)
        )
        SELECT start, number FROM record WHERE start < length(e.packed)
    ) r
), history AS MATERIALIZED (
    -- With what came before, in the order of their numbers.
    SELECT t.job, t.type, t.state, t.at, t.attempt, row_number() OVER earlier AS number,
        lag(t.attempt) OVER earlier AS attempt_before, lag(t.at) OVER earlier AS at_before,
        count(*) FILTER (WHERE t.type = 2) OVER earlier AS begins,
        count(*) FILTER (WHERE t.type IN (9, 10, 11)) OVER earlier
            - CASE WHEN t.type IN (9, 10, 11) THEN 1 ELSE 0 END AS ends_before,
        count(*) FILTER (WHERE t.type IN (9, 10, 11)) OVER (PARTITION BY t.job) AS ends,
        t.is_cut
    FROM told t WHERE t.job <> '\x00000000000000000000000000000000'
    WINDOW earlier AS (PARTITION BY t.job ORDER BY t.sequence)
), broken AS (
    SELECT r.rule, j.id::text AS example
    FROM jobs j CROSS JOIN LATERAL (VALUES
        ('an unfinished job is waiting, queued, running or suspended',
            j.state IN ('waiting', 'queued', 'running', 'suspended')),
        ('an unfinished job is not among the finished jobs',
            NOT EXISTS (SELECT FROM finished_jobs f WHERE f.id = j.id)),
        ('a waiting job waits for something, and no other job does',
            (j.state = 'waiting') = (j.waiting_for IS NOT NULL)),
        ('a running job has a node; of the others, only a queued job that has not begun may have one',
            CASE j.state WHEN 'running' THEN j.node IS NOT NULL WHEN 'queued'
                THEN j.node IS NULL OR j.attempt > 0 AND j.started_at IS NULL ELSE j.node IS NULL END),
        ('the node of a job exists',
            j.node IS NULL OR EXISTS (SELECT FROM nodes n WHERE n.id = j.node)),
        ('a running job has an attempt and the time of its start',
            j.state <> 'running' OR j.attempt > 0 AND j.started_at IS NOT NULL),
        ('a job has no more failed attempts than attempts', j.failed_attempts BETWEEN 0 AND j.attempt),
        ('only a job of a node has a requested suspension', j.node IS NOT NULL OR NOT j.suspend_requested),
        ('only a waiting job has a question', j.question IS NULL OR j.state = 'waiting' AND j.asks),
        ('the group of an unfinished job exists',
            j.job_group IS NULL OR EXISTS (SELECT FROM job_groups g WHERE g.id = j.job_group)),
        ('a queued job is in a claim queue of its session',
            j.state <> 'queued' OR NOT EXISTS (
                SELECT FROM claim_queues l
                WHERE l.id = j.queue AND (l.tenant <> j.tenant OR l.session <> j.session
                    OR l.origin NOT IN ('', j.origin)))),
        ('a job that waits for dependencies has some',
            j.waiting_for IS DISTINCT FROM 'dependency'
                OR EXISTS (SELECT FROM job_dependencies d WHERE d.dependent = j.id)
                OR EXISTS (SELECT FROM dependency_outbox n WHERE n.job = j.id))
    ) AS r(rule, holds)
    WHERE r.holds IS NOT TRUE
    UNION ALL
    SELECT r.rule, f.id::text
    FROM finished_jobs f CROSS JOIN LATERAL (VALUES
        ('a finished job has succeeded, failed or been cancelled',
            f.state IN ('succeeded', 'failed', 'cancelled')),
        ('a failed job has an error', f.state <> 'failed' OR f.error IS NOT NULL)
    ) AS r(rule, holds)
    WHERE r.holds IS NOT TRUE
    UNION ALL
    SELECT 'an acknowledged job does not wait for its acknowledgement', f.id::text
    FROM unacknowledged_jobs u JOIN finished_jobs f ON f.id = u.job
    WHERE f.acknowledged_at IS NOT NULL OR f.given_up_at IS NOT NULL
    UNION ALL
    SELECT 'a job whose upload is abandoned has ended', a.job::text
    FROM abandoned_uploads a JOIN jobs j ON j.id = a.job
    UNION ALL
    SELECT 'a job knows since which revision it has its spec', s.job || ' ' || s.last_revision
    FROM earlier_specs s LEFT JOIN jobs j ON j.id = s.job LEFT JOIN finished_jobs f ON f.id = s.job
    WHERE (j.id IS NOT NULL OR f.id IS NOT NULL)
        AND (s.last_revision < coalesce(j.spec_revision, f.spec_revision)) IS NOT TRUE
    UNION ALL
    SELECT r.rule, d.dependent || ' depends on ' || d.dependency
    FROM job_dependencies d LEFT JOIN jobs j ON j.id = d.dependency CROSS JOIN LATERAL (VALUES
        ('the dependency of a job is unfinished, or its end is to be processed',
            j.id IS NOT NULL
                OR d.group_round IS NOT NULL AND EXISTS (
                    SELECT FROM job_groups g WHERE g.id = d.dependency AND g.finished_at IS NULL)
                OR d.group_round = -1 AND EXISTS (
                    SELECT FROM uploads u WHERE u.id = d.dependency AND u.is_awaited AND NOT u.is_complete)
                OR EXISTS (SELECT FROM dependency_outbox n WHERE n.job IN (d.dependency, d.dependent))
                OR NOT EXISTS (SELECT FROM jobs w WHERE w.id = d.dependent)),
        ('a dependency knows that it has dependents', j.id IS NULL OR j.has_dependents)
    ) AS r(rule, holds)
    WHERE r.holds IS NOT TRUE
    UNION ALL
    SELECT 'the counts of unfinished jobs and pending deliveries are exact',
        format('%s: counted %s, found %s', r.name, r.counted, r.found)
    FROM (
        SELECT coalesce(sum(waiting), 0) AS waiting, coalesce(sum(queued), 0) AS queued,
            coalesce(sum(running), 0) AS running, coalesce(sum(suspended), 0) AS suspended,
            coalesce(sum(deliveries_pending), 0) AS deliveries
        FROM job_counts
    ) c CROSS JOIN (
        SELECT count(*) FILTER (WHERE state = 'waiting') AS waiting,
            count(*) FILTER (WHERE state = 'queued') AS queued,
            count(*) FILTER (WHERE state = 'running') AS running,
            count(*) FILTER (WHERE state = 'suspended') AS suspended
        FROM jobs
    ) j CROSS JOIN (
        SELECT count(*) AS deliveries FROM deliveries WHERE state = 'pending'
    ) d CROSS JOIN LATERAL (VALUES
        ('waiting', c.waiting, j.waiting), ('queued', c.queued, j.queued), ('running', c.running, j.running),
        ('suspended', c.suspended, j.suspended), ('deliveries', c.deliveries, d.deliveries)
    ) AS r(name, counted, found)
    WHERE r.counted <> r.found
    UNION ALL
    SELECT 'the counts of the unfinished jobs of a group are exact',
        format('%s %s %s: counted %s, found %s', g.tenant, g.name, r.name, r.counted, r.found)
    FROM counted_job_groups g LEFT JOIN (
        SELECT job_group, count(*) FILTER (WHERE state = 'waiting') AS waiting,
            count(*) FILTER (WHERE state = 'queued') AS queued,
            count(*) FILTER (WHERE state = 'running') AS running,
            count(*) FILTER (WHERE state = 'suspended') AS suspended
        FROM jobs WHERE job_group IS NOT NULL GROUP BY job_group
    ) j ON j.job_group = g.id CROSS JOIN LATERAL (VALUES
        ('waiting', g.waiting, j.waiting), ('queued', g.queued, j.queued), ('running', g.running, j.running),
        ('suspended', g.suspended, j.suspended)
    ) AS r(name, counted, found)
    WHERE r.counted <> coalesce(r.found, 0)
    UNION ALL
    SELECT 'a finished group has no unfinished jobs', g.tenant || ' ' || g.name
    FROM job_groups g WHERE g.finished_at IS NOT NULL AND has_unfinished_jobs(g.id)
    UNION ALL
    SELECT r.rule, s.tenant || ' ' || s.session
    FROM (
        SELECT e.tenant, e.session, e.first_sequence + c.count AS next,
            lead(e.first_sequence) OVER w AS following,
            greatest(e.last_at, e.not_before) AS shown_until,
            lead(coalesce(e.not_before, e.first_at)) OVER w AS shown_next
        FROM events e CROSS JOIN LATERAL (
            -- An EventRecord: the length of the detail is in bytes 36 to 39, the detail follows.
            WITH RECURSIVE record AS (
                SELECT 0 AS start
                UNION ALL
                SELECT r.start + 40 + (get_byte(e.packed, r.start + 36) << 24)
                    + (get_byte(e.packed, r.start + 37) << 16) + (get_byte(e.packed, r.start + 38) << 8)
                    + get_byte(e.packed, r.start + 39)
                FROM record r WHERE r.start < length(e.packed)
            )
            SELECT count(*) - 1 AS count FROM record
        ) c
        WINDOW w AS (PARTITION BY e.tenant, e.session ORDER BY e.first_sequence, e.id)
    ) s CROSS JOIN LATERAL (VALUES
        ('the events of a session have consecutive sequence numbers',
            s.following IS NULL OR s.following = s.next),
        ('the events of a session show times in their order',
            s.shown_next IS NULL OR s.shown_next >= s.shown_until),
        ('a session knows the sequence number of its last event',
            s.following IS NOT NULL OR EXISTS (
                SELECT FROM sessions k
                WHERE k.tenant = s.tenant AND k.name = s.session AND k.last_sequence = s.next - 1))
    ) AS r(rule, holds)
    WHERE r.holds IS NOT TRUE
    UNION ALL
    SELECT r.rule, encode(h.job, 'hex')
    FROM history h CROSS JOIN LATERAL (VALUES
        ('the events of a job begin with its creation', h.number > 1 OR h.type = 1 OR h.is_cut),
        ('a job is created once', h.type <> 1 OR h.number = 1),
        ('a job begins once', h.type <> 2 OR h.begins = 1),
        ('after the end of a job come acknowledgements only', h.ends_before = 0 OR h.type IN (14, 15, 16)),
        ('an event has a state to which its type leads',
            -- JobTransition in the source. States: 1 waiting, 2 queued, 3 running, 4 suspended,
            -- 5 succeeded, 6 failed, 7 cancelled. The failure of the last attempt comes with the end.
            (h.type, h.state) IN (
                (1, 1), (1, 2), (1, 3), (1, 4), (2, 3), (3, 1), (4, 1), (5, 1), (6, 1), (7, 3), (8, 1),
                (8, 2), (8, 4), (8, 6), (9, 5), (10, 6), (11, 7), (14, 5), (14, 6), (14, 7), (15, 5),
                (15, 6), (15, 7), (16, 5), (16, 6), (16, 7), (18, 1))),
        ('the attempts of a job grow from event to event', h.attempt >= coalesce(h.attempt_before, 0)),
        -- The clocks of nodes follow that of the database and may differ by milliseconds.
        ('the events of a job are in the order of their times until its end',
            h.type IN (14, 15, 16) OR h.at >= coalesce(h.at_before, h.at) - 1000000),
        ('a job whose end was told has ended', h.type NOT IN (9, 10, 11) OR NOT EXISTS (
            SELECT FROM jobs j WHERE j.id = encode(h.job, 'hex')::uuid)),
        ('a finished job is as the event about its end says', h.type NOT IN (9, 10, 11) OR NOT EXISTS (
            SELECT FROM finished_jobs f
            WHERE f.id = encode(h.job, 'hex')::uuid AND (
                f.attempt <> h.attempt
                OR f.state <> (CASE h.state WHEN 5 THEN 'succeeded' WHEN 6 THEN 'failed'
                    ELSE 'cancelled' END)::job_state)))
    ) AS r(rule, holds)
    WHERE r.holds IS NOT TRUE
    UNION ALL
    SELECT 'the end of a finished job is told', f.id::text
    FROM history h JOIN finished_jobs f ON f.id = encode(h.job, 'hex')::uuid
    -- Written with the row; the relay takes events from the inbox and keeps them in one transaction.
    WHERE h.type = 1 AND h.ends = 0
        AND NOT EXISTS (SELECT FROM event_inbox i WHERE position(h.job IN i.packed) > 0)
        AND NOT EXISTS (SELECT FROM rejected_events i WHERE position(h.job IN i.packed) > 0)
    UNION ALL
    SELECT 'the deliveries of an event have the same content', d.event::text
    FROM deliveries d GROUP BY d.event
    HAVING min(d.sequence) <> max(d.sequence) OR min(d.type) <> max(d.type)
        OR min(d.occurred_at) <> max(d.occurred_at) OR min(d.job_json) <> max(d.job_json)
    UNION ALL
    SELECT 'a delivery that is not pending has no sender', d.id::text
    FROM deliveries d WHERE d.state <> 'pending' AND d.node IS NOT NULL
    UNION ALL
    SELECT 'a try belongs to a delivery', t.delivery::text
    FROM delivery_tries t WHERE NOT EXISTS (SELECT FROM deliveries d WHERE d.id = t.delivery)
    UNION ALL
    SELECT 'a schedule with a next run has its occurrence', s.id::text
    FROM schedules s WHERE (s.next_run_at IS NULL) <> (s.next_scheduled_at IS NULL)
    UNION ALL
    SELECT 'limits and connections of a host are positive', h.origin
    FROM host_limits h WHERE h.connection_limit <= 0 OR h.request_rate <= 0
    UNION ALL
    SELECT 'limits and connections of a host are positive', c.origin FROM connections c WHERE c.count <= 0
)
SELECT rule, count(*), min(example) FROM broken GROUP BY rule ORDER BY rule
