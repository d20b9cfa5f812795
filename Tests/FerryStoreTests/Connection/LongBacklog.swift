/// The part of `LongHistory` that is not finished: of the tenant `backlog`, with everything that statements
/// of the store's threads look for.
///
/// 100,000 jobs wait, for each reason as many; 1,000 run on two nodes, one of which is dead, and 100 are
/// held; 1,000 are suspended, and 1,000 are queued in claim queues with a limit. There are 20,000 pending
/// deliveries, and hosts, sessions and events in thousands.
enum LongBacklog {
    static let script = """
        INSERT INTO nodes (id, started_at, heartbeat_at, running, draining, is_worker, name, version)
        SELECT history_id(i), now(), CASE i WHEN 2 THEN '2026-01-01' ELSE now() END, 500, false, true, 'node '
            || i, '1' FROM generate_series(1, 3) AS i;
        INSERT INTO claim_queues (id, tenant, session, origin)
        SELECT i, CASE i WHEN 1 THEN 'acme' ELSE 'backlog' END,
            CASE WHEN i < 3 THEN 'default' ELSE 'queue ' || i END, '' FROM generate_series(1, 500) AS i
        UNION ALL
        SELECT -i, 'backlog', 'default', 'https://' || i || '.example:443' FROM generate_series(1, 500) AS i;
        INSERT INTO jobs (id, created_at, expires_at, urgency, queue, priority, kind, state,
            waiting_for,
            next_attempt_at, asks, question, discretionary_from, tenant, session, origin, spec, awaits_host)
        SELECT history_id(i + 4000000), now(),
            now() + CASE WHEN i % 10000 = 0 THEN interval '-1 second' ELSE interval '1 day' END,
            now(), 2, 0.5, 'download', 'waiting', w, CASE WHEN w = 'connectivity' THEN NULL
                ELSE now() + i * interval '1 second' - interval '1000 seconds' END,
            w IN ('challenge', 'confirmation', 'redirect'),
            CASE WHEN w IN ('challenge', 'redirect') OR w = 'confirmation' AND i % 16 < 8 THEN '{}' END,
            CASE WHEN w = 'discretionary' THEN now() - interval '1 hour' END,
            'backlog', CASE WHEN i % 3 = 0 THEN 'often' ELSE 'default' END,
            'https://' || CASE WHEN w = 'connectivity' THEN 'away-' ELSE '' END || i % 50 || '.example:443',
                '{}', true
        FROM (
            SELECT i, (enum_range(NULL::waiting_for))[1 + i % 8] AS w FROM generate_series(1, 100000) AS i
        ) AS u;
        INSERT INTO job_dependencies (dependency, dependent)
        SELECT history_id(2000001 + i % 1000 * 10), id FROM (
            SELECT id, row_number() OVER (ORDER BY id) AS i FROM jobs WHERE waiting_for = 'dependency') AS u;
        UPDATE jobs SET has_dependents = true WHERE id IN (SELECT dependency FROM job_dependencies);
        INSERT INTO dependency_outbox (job, state)
        SELECT history_id(2000001 + i * 10), 'succeeded' FROM generate_series(1, 100) AS i;
        INSERT INTO jobs (id, created_at, expires_at, urgency, queue, attempt, priority, kind, state,
            started_at, node,
            tenant, session, origin, spec)
        SELECT history_id(i + 4200000), now(), now() + interval '1 day', now(), CASE WHEN i % 10 = 0 THEN -i /
            10
            ELSE 2 END, 1, 0.5, 'download'::job_kind, 'running'::job_state, now(), history_id(1 + i % 2),
                'backlog', 'default',
            'https://' || i / 10 || '.example:443', '{}'
        FROM generate_series(1, 1000) AS i
        UNION ALL
        SELECT history_id(i + 4300000), now(), now() + interval '1 day', now(), 2, 1, 0.5, 'download',
            'queued', NULL,
            history_id(1), 'backlog', 'default', 'https://' || i / 10 || '.example:443', '{}'
        FROM generate_series(1, 100) AS i
        UNION ALL
        SELECT history_id(i + 4400000), now(), now() + interval '1 day', now(), 2, 1, 0.5, 'download',
            'suspended',
            NULL, NULL, 'backlog', 'default', 'https://' || i / 10 || '.example:443', '{}'
        FROM generate_series(1, 1000) AS i
        UNION ALL
        SELECT history_id(i + 4500000), now(), now() + interval '1 day', now(), -1 - i % 500, 0, 0.5,
            'download',
            'queued', NULL, NULL, 'backlog', 'default', 'https://' || 1 + i % 500 || '.example:443', '{}'
        FROM generate_series(1, 1000) AS i;
        INSERT INTO hosts (is_awaited, due_at, origin, unreachable)
        SELECT i % 2 = 0, now() + i * interval '1 second' - interval '100 seconds', 'https://' || i ||
            '.example:443',
            CASE WHEN i % 10 = 0 THEN 'could_not_connect' END FROM generate_series(1, 1000) AS i
        UNION ALL
        SELECT i > 0, now() + interval '1 hour', 'https://away-' || i || '.example:443', 'could_not_connect'
        FROM generate_series(0, 49) AS i;
        INSERT INTO host_limits (origin, connection_limit, request_rate)
        SELECT 'https://' || i || '.example:443', 6, 100 FROM generate_series(1, 1000) AS i;
        INSERT INTO host_decisions (origin, decision)
        SELECT 'https://' || i % 1000 || '.example:443', '{}' FROM generate_series(1, 50000) AS i;
        INSERT INTO host_throughputs (bytes_per_second, measured_at, origin)
        SELECT i, now() - i * interval '1 hour', 'https://' || i || '.example:443' FROM generate_series(1,
            10000) AS i;
        INSERT INTO connections (job, attempt, count, origin, tenant, session)
        SELECT history_id(i + 4200000), 1 + i % 2, 1, 'https://' || i / 10 || '.example:443', 'backlog',
            'default'
        FROM generate_series(1, 1000) AS i;
        INSERT INTO session_configurations (epoch, created_at, updated_at, revision, invalidated_at, ended_at,
            tenant,
            name, configuration, invalidation)
        SELECT i, '2026-01-01', now(), 1, CASE WHEN i <= 10 THEN now() END, CASE WHEN i <= 5 THEN now() END,
            'backlog',
            CASE i WHEN 6 THEN 'often' ELSE 'session ' || i END, '{}', CASE WHEN i <= 10 THEN 'cancel' END
        FROM generate_series(1, 1000) AS i;
        INSERT INTO session_credentials (created_at, updated_at, revision, is_permanent, tenant, session,
            name, credential, secrets)
        SELECT now(), now(), 1, i % 2 = 0, 'backlog', 'session ' || (i + 1) / 2,
            CASE WHEN i % 2 = 0 THEN 'one' ELSE 'two' END, '{}', '' FROM generate_series(1, 2000) AS i;
        UPDATE session_epoch SET epoch = 1000;
        INSERT INTO cookie_jars (tenant, session, version, removal)
        SELECT 'backlog', 'session ' || i, 30, i % 2 FROM generate_series(10, 1000) AS i;
        INSERT INTO cookies (tenant, session, version, key, expires_at, cookie)
        SELECT 'backlog', 'session ' || i, j, sha256(j::text::bytea), now() + j * interval '1 day', 'sealed'
        FROM generate_series(10, 1000) AS i, generate_series(1, 30) AS j;
        INSERT INTO sessions (last_sequence, unfinished, is_drained, tenant, name)
        SELECT 1, 0, i <= 100, 'backlog', 'session ' || i FROM generate_series(1, 1000) AS i;
        INSERT INTO session_receivers (job, changed_at, wanted, tenant, session, url)
        SELECT history_id(i), now() - i * interval '1 hour', 1, 'backlog', 'session ' || i % 100,
            'https://hook.example/' || i FROM generate_series(1, 1000) AS i;
        INSERT INTO event_inbox (tenant, session, packed)
        SELECT 'backlog', 'session ' || i % 10, event_pack(0, NULL, history_id(i), now(), 0, 1, 'queued',
            NULL, NULL)
        FROM generate_series(1, 1000) AS i;
        INSERT INTO deliveries (id, event, job, sequence, occurred_at, next_try_at, type, tenant, session,
            url,
            job_json, endpoint, node)
        SELECT history_id(i + 6000000), history_id(i), history_id(i), i, now(), now(), 'job.succeeded',
            'backlog',
            'session ' || i % 100, 'https://hook.example/', '{}', history_id(16001 + i % 20),
            CASE WHEN i % 10 = 0 THEN history_id(1) END
        FROM generate_series(1, 20000) AS i;
        UPDATE webhooks SET deleted_at = now() - interval '1 hour', is_enabled = false, disabled_reason =
            'requested'
        WHERE id IN (history_id(15000), history_id(15001));
        INSERT INTO tenant_limits (tenant, unfinished_jobs, bytes_per_day)
        SELECT 'tenant-' || i, i, 1000 FROM generate_series(1, 20) AS i;
        INSERT INTO tenant_transfers (tenant, since, node, bytes)
        SELECT 'tenant-' || i % 20, now() - interval '2 days' - i / 20 * interval '10 minutes',
            history_id(1), i
        FROM generate_series(1, 5000) AS i;
        INSERT INTO job_counts (shard, waiting, queued, running, suspended, deliveries_pending)
        VALUES ('history', 100000, 101100, 1000, 1000, 20000);
        UPDATE schedules SET next_scheduled_at = now(), next_run_at = now() + (
            ('x' || right(id::text, 5))::bit(20)::integer - 100) * interval '1 second' WHERE tenant = 'acme';
        SELECT setval('claim_queue_ids', 1000);
        SELECT gin_clean_pending_list('events_marked');
        """
}
