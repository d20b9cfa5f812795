import FerryStore
import Postgres
import Synchronization
import TestSupport

/// One database for all tests of plans: a million finished jobs, a backlog, and their events and deliveries.
/// Filled once per test process, in some 15 seconds, and only read.
///
/// Of 100 jobs one is the tenant `other`'s, the rest are `acme`'s; half of them are in the session `often`,
/// one of 1,000 in `rare`. The statistics are of 1,000 jobs, all alike.
final class LongHistory: Sendable {
    static let shared = Result { try LongHistory() }

    static let jobCount = 1_000_000

    private let database: TestDatabase
    /// A session whose plans were made when the tables were empty.
    let early: Mutex<Connection>

    var url: String { database.url }

    private init() throws {
        database = try TestDatabase(template: template)
        var options = ConnectionOptions()
        options.statementTimeout = nil
        options.resultTimeout = .seconds(300)
        var connection = try Connection(url: database.url, options: options)
        try connection.execute(script: Self.partitions)
        try connection.execute(script: Self.jobs(1, 1_000, isSkewed: true))
        try connection.execute(script: "ANALYZE")
        try connection.execute(
            script: """
                TRUNCATE jobs, finished_jobs, events, deliveries, delivery_tries, unacknowledged_jobs,
                    schedule_runs, idempotency_keys, earlier_specs
                """)
        var session = try Connection(url: database.url, options: PlanTests.options)
        for (number, one) in PlanTests.cases.enumerated() {
            try ReadPlan.prepare(one.statement, number, &session)
            try ReadPlan.plan(one.arguments, number, &session)
        }
        early = Mutex(session)
        try connection.execute(script: Self.jobs(1, Self.jobCount, isSkewed: false))
        try connection.execute(script: Self.others)
        try connection.execute(script: LongBacklog.script)
    }

    /// The identifier of the `number`th job, event or delivery, in SQL: one each second.
    static func id(_ number: Int) -> String { "history_id(\(number))" }

    /// A large partition, a young one and the one for the rest, as after the first days. No vacuum and no new
    /// statistics while tests run.
    private static let partitions = """
        CREATE FUNCTION history_id(number bigint) RETURNS uuid LANGUAGE sql IMMUTABLE AS $$
            SELECT (lpad(to_hex(1700000000000 + number * 1000), 12, '0') || '70008'
                || lpad(to_hex(number), 15, '0'))::uuid
        $$;
        DO $$
        DECLARE
            name text;
        BEGIN
            FOR name IN
                SELECT relname FROM pg_class WHERE relkind = 'r' AND relname ~ '^finished_jobs_[0-9a-f]{12}$'
            LOOP
                EXECUTE format('DROP TABLE %I', name);
            END LOOP;
            PERFORM add_finished_jobs(history_id(0), history_id(990000));
            PERFORM add_finished_jobs(history_id(990000), history_id(1990000));
            FOR name IN
                SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
            LOOP
                EXECUTE format('ALTER TABLE %I SET (autovacuum_enabled = off)', name);
            END LOOP;
        END $$;
        """

    private static func jobs(_ first: Int, _ last: Int, isSkewed: Bool) -> String {
        let tenant = isSkewed ? "'acme'" : "CASE WHEN i % 100 = 7 THEN 'other' ELSE 'acme' END"
        let session =
            isSkewed
            ? "'default'"
            : "CASE WHEN i % 1000 = 5 THEN 'rare' WHEN i % 2 = 0 THEN 'often' ELSE 'default' END"
        let state = isSkewed ? "'succeeded'" : "CASE WHEN i % 100000 = 3 THEN 'failed' ELSE 'succeeded' END"
        return """
            INSERT INTO finished_jobs (id, created_at, started_at, finished_at, revision, attempt,
                failed_attempts, kind, state, tenant, session, origin, spec, error, metadata, retry_of)
            SELECT history_id(i), at, at, at + interval '1 second', 3, 1, 0, 'download',
                (\(state))::job_state, \(tenant), \(session), 'https://example.org:443', '{}', '{}',
                CASE WHEN i % 10 = 0 THEN jsonb_build_object('order', i::text) END,
                CASE WHEN i % 100 = 50 THEN history_id(i - 49) END
            FROM (
                SELECT i, to_timestamp(1700000000 + i) AS at FROM generate_series(\(first), \(last)) AS i
            ) AS u;
            INSERT INTO earlier_specs (job, replaced_at, last_revision, spec)
            SELECT history_id(i), to_timestamp(1700000000 + i), 1, '{}'
            FROM generate_series(\(first), \(last), 10) AS i;
            INSERT INTO jobs (id, created_at, expires_at, priority, kind, state, tenant, session, origin,
                spec, queue, urgency, retry_of)
            SELECT history_id(i + 2000000), to_timestamp(1702000000 + i), now() + interval '1 day', 0.5,
                'download', 'queued', \(tenant), \(session), 'https://example.org:443', '{}', 1, now(),
                CASE WHEN i % 1000 = 1 THEN history_id(i) END
            FROM generate_series(\(first), \(last), 10) AS i;
            INSERT INTO events (id, first_sequence, first_at, last_at, types, tenant, session, marked, packed)
            SELECT history_id(i), i, to_timestamp(1700000000 + i), to_timestamp(1700000009 + i),
                CASE WHEN i % 100000 = 1 THEN 2048 ELSE 512 END, \(tenant), \(session),
                CASE WHEN i % 100 = 1 THEN ARRAY[history_id(i)] END, ''
            FROM generate_series(\(first), \(last), 5) AS i;
            INSERT INTO deliveries (id, event, job, sequence, occurred_at, next_try_at, type, tenant, session,
                url, job_json, endpoint, state)
            SELECT history_id(i), history_id(i), history_id(i / 10000), i, now(), now(), 'job.succeeded',
                'acme', 'default', 'https://example.org/', '{}', history_id(i % 10),
                CASE WHEN i % 100000 = 1 THEN 'given_up' ELSE 'accepted' END::delivery_state
            FROM generate_series(\(first), \(last), 5) AS i;
            INSERT INTO delivery_tries (delivery, number, started_at, duration, status, answer)
            SELECT history_id(i), 1, now(), 1, 200, '' FROM generate_series(\(first), \(last), 5) AS i;
            INSERT INTO unacknowledged_jobs (job, tenant, session, rules, expires_at, next_look_at)
            SELECT history_id(i), 'acme', 'default', '{"by": "client"}', now(), now()
            FROM generate_series(\(first), \(last), 10) AS i;
            INSERT INTO schedule_runs (schedule, scheduled_at, job, place)
            SELECT history_id(i % 2), to_timestamp(1700000000 + i), history_id(i), 0
            FROM generate_series(\(first), \(last), 9) AS i;
            INSERT INTO idempotency_keys (tenant, route, key, fingerprint, job_ids, states, next_attempts_at,
                node, created_at)
            SELECT 'acme', 'jobs', i::text, '', ARRAY[history_id(i)], '{queued}', '{NULL}', history_id(0),
                now()
            FROM generate_series(\(first), \(last), 10) AS i;
            """
    }

    /// Rows of which a tenant has thousands at most.
    private static let others = """
        INSERT INTO abandoned_uploads (job, created_at, due_at, ends_at, tries, tenant, origin, spec,
            next_request)
        SELECT history_id(i), now(), now() + (i - 10000) * interval '1 hour', now() + interval '9 years', 0,
            'acme', 'https://example.org:443', '{}', ''
        FROM generate_series(1, 20000) AS i;
        INSERT INTO sessions (tenant, name, last_sequence)
        SELECT 'acme', 'session ' || i, 1 FROM generate_series(1, 20000) AS i;
        INSERT INTO schedules (id, created_at, updated_at, watches_jobs, tenant, definition, specs,
            secrets, payloads)
        SELECT history_id(i), now(), now(), false, CASE WHEN i % 500 = 0 THEN 'other' ELSE 'acme' END,
            '{}', '{}', '{}', '{}'
        FROM generate_series(1, 20000) AS i;
        INSERT INTO webhooks (id, created_at, updated_at, disable_after, is_enabled, is_ordered, format,
            tenant, url, retry_delays, public_key, keys)
        SELECT history_id(i), now(), now(), 1, true, false, 'standard',
            CASE WHEN i % 500 = 0 THEN 'other' ELSE 'acme' END, '', '{}', '', ''
        FROM generate_series(1, 20000) AS i;
        INSERT INTO api_keys (id, tenant, role, name, hash, created_at)
        SELECT history_id(i), 'acme', 'client', '', i::text::bytea, now() FROM generate_series(1, 20000) AS i;
        INSERT INTO bulk_operations (id, created_at, step_at, finished_at, position, command, state,
            keeps_bytes, tenant, traceparent, filter, ids)
        SELECT history_id(i), now(), now(), CASE WHEN i % 100 > 0 THEN now() - interval '1 day' END,
            history_id(i), 'cancel', CASE WHEN i % 100 > 0 THEN 'succeeded' ELSE 'running' END::bulk_state,
            false, CASE WHEN i % 500 = 1 THEN 'other' ELSE 'acme' END, '',
            CASE WHEN i % 2 = 1 THEN '{}' END,
            CASE WHEN i % 2 = 0 THEN ARRAY(SELECT history_id(n) FROM generate_series(1, 1000) AS n) END
        FROM generate_series(1, 20001) AS i;
        INSERT INTO audit (id, requested_at, operation, path, request_id)
        SELECT history_id(i), now(), 'pause', '/', '' FROM generate_series(1, 20000) AS i;
        """
}
