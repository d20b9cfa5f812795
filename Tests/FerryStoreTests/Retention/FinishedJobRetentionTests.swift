import FerryCore
import FerryStore
import Postgres
import Sys
import TestSupport
import TestThreads
import Testing

@Suite("Retention of finished jobs", .onOwnThread)
struct FinishedJobRetentionTests {
    let database: TestDatabase

    init() throws { database = try TestDatabase(template: template) }

    private func rows(_ sql: String) throws -> [String] {
        var connection = try Connection(url: database.url)
        let rows = try connection.execute(Statement("test_\(sql.utf8.count)", sql))
        return (0..<rows.rowCount).map { rows.text($0, 0) }
    }

    private func partitions() throws -> [String] {
        try rows(
            "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'finished_jobs'::regclass "
                + "ORDER BY 1")
    }

    private func finish(_ node: TestNode, session: String = "default") throws -> JobID {
        let job = try node.submit(newJob(session: session))
        node.end(try node.attempt(), success)
        return job.id
    }

    @Test("partitions are added ahead of time, and a job is found in its partition by id alone")
    func ahead() throws {
        let node = try TestNode(database.url) { $0.historySeconds = 43_200 }
        defer { node.store.stop() }
        eventually("two partitions are ahead") { (try? partitions().count) ?? 0 >= 3 }
        let id = try finish(node)
        #expect(try node.job(id).get().record.state == .succeeded)
        let found = try rows("SELECT DISTINCT tableoid::regclass::text FROM finished_jobs")
        #expect(found.count == 1 && found != ["finished_jobs_rest"])
    }

    @Test("lookups by id with a generic plan read one partition")
    func plans() throws {
        let node = try TestNode(database.url) { $0.historySeconds = 86_400 }
        eventually("two partitions are ahead") { (try? partitions().count) ?? 0 >= 3 }
        node.store.stop()
        var options = ConnectionOptions()
        options.pinsPlans = true
        var connection = try Connection(url: database.url, options: options)
        let job: JobID = TestNode.identifiers.make()
        for (statement, arguments) in [
            (Statements.readJobs, "ARRAY['\(uuid(job))']::uuid[], true"),
            (Statements.readAttempts, "'\(uuid(job))', 'acme'"),
            (Statements.deleteJob, "'\(uuid(job))', 1, NULL"),
            (Statements.readRemovableFiles, "ARRAY['\(uuid(job))']::uuid[], 1"),
            (Statements.knownJobs, "ARRAY['\(uuid(job))']::uuid[], NULL"),
        ] {
            try connection.execute(script: "PREPARE \(statement.name) AS \(statement.sql)")
            let rows = try connection.execute(
                Statement(
                    "explain_\(statement.name)",
                    "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) EXECUTE \(statement.name)(\(arguments))"))
            let plan = (0..<rows.rowCount).map { rows.text($0, 0) }
            let read = plan.filter { $0.contains(" on finished_jobs_") && !$0.contains("never executed") }
            #expect(read.allSatisfy { $0.contains("Index") || $0.contains("Delete") }, "\(plan)")
            #expect(
                read.count { $0.contains("Scan") } <= 1, "\(statement.name): \(plan.joined(separator: "\n"))")
        }
    }

    @Test("a partition is dropped after its retention, and jobs that ended later are kept")
    func dropping() throws {
        try addOld("gone", days: 9, ended: 9)
        try addOld("late", days: 9, ended: 1)
        try addOld("young", days: 1, ended: 1)
        try addOld("unacknowledged", days: 9, ended: 9)
        try addOld("acknowledged", days: 9, ended: 9)
        try hold("unacknowledged")
        try change("UPDATE finished_jobs SET acknowledged_at = now() WHERE session = 'acknowledged'")
        #expect(
            try rows("SELECT session FROM finished_jobs ORDER BY 1") == [
                "acknowledged", "gone", "late", "unacknowledged", "young",
            ])
        // Creates the partition of that time.
        var connection = try Connection(url: database.url)
        try connection.execute(script: Self.splitting)
        let node = try TestNode(database.url) { $0.historySeconds = 86_400 }
        defer { node.store.stop() }
        eventually("the old partition is dropped") {
            (try? rows("SELECT session FROM finished_jobs ORDER BY 1")) == [
                "acknowledged", "late", "unacknowledged", "young",
            ]
        }
        let rest = try rows("SELECT session FROM finished_jobs_rest ORDER BY 1")
        #expect(rest == ["acknowledged", "late", "unacknowledged"])
        // In a later transaction than the one that detaches it.
        try eventually("its table is gone") {
            try rows("SELECT relname::text FROM pg_class WHERE relname = '\(Self.oldPartition)'").isEmpty
        }
        #expect(node.store.metrics.removedJobs >= 0)
    }

    @Test("a partition with more than 1,000 jobs to keep stays, and its other jobs are deleted")
    func thinning() throws {
        try addOld("held", days: 9, ended: 9, count: 1_001)
        try addOld("gone", days: 9, ended: 9, count: 3)
        try hold("held")
        try change(Self.splitting)
        let node = try TestNode(database.url) { $0.historySeconds = 86_400 }
        defer { node.store.stop() }
        eventually("the others are gone") {
            (try? rows("SELECT count(*)::text FROM finished_jobs")) == ["1001"]
        }
        #expect(
            try rows("SELECT DISTINCT tableoid::regclass::text FROM finished_jobs") == [Self.oldPartition])
        #expect(try rows("SELECT DISTINCT session FROM finished_jobs") == ["held"])
    }

    @Test("a job kept from a detached partition and then deleted does not come back when it is dropped")
    func deletedLate() throws {
        try addOld("late", days: 9, ended: 1)
        try addOld("later", days: 9, ended: 1)
        try addOld("unacknowledged", days: 9, ended: 9)
        try addOld("both", days: 9, ended: 1)
        try addOld("gone", days: 9, ended: 9)
        for session in ["unacknowledged", "both"] { try hold(session) }
        try change(Self.splitting)
        // The jobs not named here ended while the partition was detached.
        try change(
            """
            SELECT detach_finished_jobs('\(Self.oldPartition)',
                ARRAY(SELECT id FROM finished_jobs WHERE session = 'late'));
            DELETE FROM finished_jobs WHERE session = 'late';
            SELECT drop_finished_jobs('\(Self.oldPartition)', now() - interval '7 days');
            """)
        let left = try rows("SELECT session FROM finished_jobs ORDER BY 1")
        #expect(left == ["both", "later", "unacknowledged"])
    }

    @Test("a partition that cannot be dropped does not stop the removal of old keys")
    func parts() throws {
        try change(Self.splitting)
        try change("SELECT detach_finished_jobs('\(Self.oldPartition)', '{}')")
        var reader = try Connection(url: database.url)
        try reader.execute(script: "BEGIN; LOCK TABLE \(Self.oldPartition) IN ACCESS SHARE MODE")
        let refused = #expect(throws: PostgresError.self) {
            try change("SELECT drop_finished_jobs('\(Self.oldPartition)', now())")
        }
        #expect(refused?.sqlState == "55P03")
        try reader.execute(script: "COMMIT")
        try change(
            """
            CREATE VIEW report AS SELECT id FROM \(Self.oldPartition);
            INSERT INTO idempotency_keys (tenant, route, key, fingerprint, job_ids, states,
                next_attempts_at, node, created_at)
            VALUES ('acme', 'old', '', '', '{}', '{}', '{}', gen_random_uuid(), now() - interval '2 days');
            """)
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        try eventually("the old key is removed") {
            try rows("SELECT count(*)::text FROM idempotency_keys") == ["0"]
        }
        let left = try rows("SELECT relname::text FROM pg_class WHERE relname = '\(Self.oldPartition)'")
        #expect(left == [Self.oldPartition])
    }

    private func change(_ sql: String) throws {
        var connection = try Connection(url: database.url)
        try connection.execute(script: sql)
    }

    /// Marks the finished jobs of a session as unacknowledged.
    private func hold(_ session: String) throws {
        try change(
            """
            INSERT INTO unacknowledged_jobs (job, tenant, session, rules, expires_at, next_look_at)
            SELECT id, tenant, session, '{"by": "client"}', 'infinity', 'infinity' FROM finished_jobs
            WHERE session = '\(session)'
            """)
    }

    private static let day: Int64 = 86_400_000
    private static let oldEnd = (Sys.wallMicroseconds() / 1_000 - 8 * day) / day * day

    private static func first(_ milliseconds: Int64) -> String {
        let digits = String(milliseconds, radix: 16)
        let text = String(repeating: "0", count: 12 - digits.count) + digits
        return "\(text.prefix(8))-\(text.suffix(4))-0000-0000-000000000000"
    }

    private static var oldPartition: String {
        "finished_jobs_" + first(oldEnd).replacing("-", with: "").prefix(12)
    }

    /// Splits the first partition in two; the older one ends eight days ago.
    private static var splitting: String {
        """
        BEGIN;
        DO $$
        DECLARE
            young text := (SELECT min(inhrelid::regclass::text) FROM pg_inherits
                WHERE inhparent = 'finished_jobs'::regclass AND inhrelid::regclass::text ~ '_[0-9a-f]{12}$');
            until text := rpad(right(young, 12), 32, '0');
        BEGIN
            EXECUTE format('ALTER TABLE finished_jobs DETACH PARTITION %I', young);
            CREATE TABLE \(oldPartition) (LIKE finished_jobs INCLUDING CONSTRAINTS);
            EXECUTE format(
                'INSERT INTO \(oldPartition) SELECT * FROM %I WHERE id < ''\(first(oldEnd))''', young);
            EXECUTE format('DELETE FROM %I WHERE id < ''\(first(oldEnd))''', young);
            ALTER TABLE finished_jobs ATTACH PARTITION \(oldPartition)
                FOR VALUES FROM (MINVALUE) TO ('\(first(oldEnd))');
            EXECUTE format('ALTER TABLE finished_jobs ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)',
                young, '\(first(oldEnd))', until);
        END $$;
        COMMIT;
        """
    }

    private func addOld(_ session: String, days: Int64, ended: Int64, count: Int = 1) throws {
        let id = Self.first(Sys.wallMicroseconds() / 1_000 - days * Self.day)
        let own = 10_000 + session.utf8.reduce(0) { $0 * 7 + Int($1) } % 90_000
        let unique = "\(id.dropLast(12))\(own)"
        var connection = try Connection(url: database.url)
        try connection.execute(
            script: """
                INSERT INTO finished_jobs (id, created_at, finished_at, revision, attempt, failed_attempts,
                    kind, state, tenant, session, origin, spec)
                SELECT ('\(unique)' || lpad(i::text, 7, '0'))::uuid, now() - interval '\(days) days',
                    now() - interval '\(ended) days', 2, 1, 0, 'data', 'succeeded', 'acme', '\(session)',
                    'http://a:80', '{}'
                FROM generate_series(1, \(count)) i
                """)
    }

    @Test("a session's own retention removes its jobs and no others")
    func sessions() throws {
        let node = try TestNode(database.url) { $0.retentionSeconds = 604_800 }
        defer { node.store.stop() }
        let (short, other, standard) = (
            try finish(node, session: "short"), try finish(node, session: "other"), try finish(node)
        )
        var configuration = SessionConfiguration()
        configuration.retention = 0.01
        let draft = SessionDraft(configuration: configuration, secrets: JobSecrets(), sealedSecrets: nil)
        let key = SessionKey(tenant: "acme", name: "short")
        _ = try wait { node.store.sessions.putSession(key, draft, if: .none, reply: $0) }.get()
        // Retention runs at the next start.
        node.store.stop()
        let next = try TestNode(database.url)
        defer { next.store.stop() }
        try eventually("its job is gone") { () throws in
            if case .failure(.notFound) = next.job(short) { true } else { false }
        }
        #expect(try next.job(other).get().record.state == .succeeded)
        #expect(try next.job(standard).get().record.state == .succeeded)
        let known = try wait { next.store.jobs.known([short, other, standard], reply: $0) }.get()
        #expect(known == [other, standard])
    }

    private func claim(_ node: TestNode) throws -> [Delivery] {
        let due = Mailbox<[Delivery]>()
        node.store.deliveries.claim(DeliveryDemand(total: 10, other: 10), leaseSeconds: 30) {
            due.send($0.due)
        }
        return try #require(due.wait(milliseconds: 60_000).first)
    }

    @Test("with a short retention jobs are deleted one by one, and pending deliveries are still sent")
    func short() throws {
        let node = try TestNode(database.url) { $0.retentionSeconds = 1 }
        defer { node.store.stop() }
        let wanted: [EventType] = [.jobSucceeded, .sessionEventsFinished]
        let job = try node.submit(newJob(session: "short", webhook: true, webhookEvents: wanted))
        node.end(try node.attempt(), success)
        let waiting = try node.submit(newJob(beginAt: Timestamp(microseconds: 4_000_000_000_000_000)))
        eventually("it is gone") { if case .failure(.notFound) = node.job(job.id) { true } else { false } }
        #expect(try node.job(waiting.id).get().record.state == .waiting)
        eventually("it is counted") { node.store.metrics.removedJobs == 1 }
        // The delivery was not sent yet.
        #expect(try node.status().deliveriesPending == 1)
        let told = try claim(node)
        try #require(told.map(\.type) == [EventType.jobSucceeded.rawValue])
        #expect(try JSON.parse(told[0].jobJSON)["id"]?.string == "\(job.id)")
        node.store.deliveries.record([
            DeliveryTry(
                delivery: told[0].id, number: 1, startedAt: told[0].occurredAt, duration: 0, status: 200,
                error: nil, responseExcerpt: "", verdict: .accepted)
        ])
        var rest: [Delivery] = []
        try eventually("the session is over") {
            rest += try claim(node)
            return !rest.isEmpty
        }
        #expect(rest.map(\.type) == [EventType.sessionEventsFinished.rawValue])
        try eventually("the accepted delivery is removed after its retention") {
            try rows("SELECT type FROM deliveries") == [EventType.sessionEventsFinished.rawValue]
        }
    }

    @Test("a job with a short retention stays until the relay has created its delivery")
    func relayBehind() throws {
        let node = try TestNode(database.url) { $0.retentionSeconds = 1 }
        defer { node.store.stop() }
        // The first run of housekeeping has ended when this key is removed.
        let old = newJob(tenant: "other")
        _ = try node.submit([old], key: key("old")).get()
        node.end(try node.attempt(), success)
        var connection = try Connection(url: database.url)
        // Holds the relay's lock like a long pass of another node.
        try connection.execute(script: "BEGIN; SELECT pg_advisory_xact_lock(7378429400504956517)")
        let job = try node.submit(newJob(webhook: true))
        node.end(try node.attempt(), success)
        eventually("its retention is over") {
            (try? rows("SELECT (max(finished_at) < now() - interval '1 s')::text FROM finished_jobs"))
                == ["true"]
        }
        try change("UPDATE idempotency_keys SET created_at = now() - interval '2 days'")
        eventually("housekeeping has run again") {
            (try? rows("SELECT count(*)::text FROM idempotency_keys")) == ["0"]
        }
        #expect(try node.job(job.id).get().record.state == .succeeded)
        try connection.execute(script: "COMMIT")
        eventually("it is gone") { if case .failure(.notFound) = node.job(job.id) { true } else { false } }
        #expect(try claim(node).map(\.job) == [job.id])
    }

    private func uuid(_ id: JobID) -> String {
        func hex(_ word: UInt64) -> String {
            let digits = String(word, radix: 16)
            return String(repeating: "0", count: 16 - digits.count) + digits
        }
        let text = hex(id.high) + hex(id.low)
        return text
    }

    @Test("jobs of an invalidated session are cancelled while old keys are removed without end")
    func turns() throws {
        // Each removal adds as many old keys, until the job has ended.
        try change(
            """
            CREATE FUNCTION add_old_keys() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                IF NOT EXISTS (SELECT FROM finished_jobs) THEN
                    INSERT INTO idempotency_keys (tenant, route, key, fingerprint, job_ids, states,
                        next_attempts_at, node, created_at)
                    SELECT 'acme', 'again', gen_random_uuid()::text, '', '{}', '{}', '{}',
                        gen_random_uuid(), now() - interval '2 days'
                    FROM generate_series(1, 2000);
                END IF;
                RETURN NULL;
            END $$;
            CREATE TRIGGER add_old_keys AFTER INSERT OR DELETE ON idempotency_keys
                FOR EACH STATEMENT WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION add_old_keys();
            INSERT INTO idempotency_keys (tenant, route, key, fingerprint, job_ids, states,
                next_attempts_at, node, created_at)
            VALUES ('acme', 'first', '', '', '{}', '{}', '{}', gen_random_uuid(),
                now() - interval '3 days');
            """)
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        eventually("old keys are being removed") {
            (try? rows("SELECT count(*)::text FROM idempotency_keys WHERE route = 'first'")) == ["0"]
        }
        let key = SessionKey(tenant: "acme", name: "busy")
        let draft = SessionDraft(
            configuration: SessionConfiguration(), secrets: JobSecrets(), sealedSecrets: nil)
        _ = try wait { node.store.sessions.putSession(key, draft, if: .none, reply: $0) }.get()
        let later = Timestamp(microseconds: Sys.wallMicroseconds() + 3_600_000_000)
        let job = try node.submit(newJob(session: "busy", beginAt: later)).id
        _ = try wait { node.store.sessions.invalidateSession(key, .cancel, if: .none, reply: $0) }.get()
        try eventually("the job is cancelled") { try node.job(job).get().record.state == .cancelled }
    }

    @Test("after a long stop new partitions begin after the jobs that ended meanwhile")
    func longStop() throws {
        var connection = try Connection(url: database.url)
        // The last partition ended a day ago.
        let last = try #require(try partitions().filter { $0.wholeMatch(of: /.*_[0-9a-f]{12}/) != nil }.max())
        let end = Sys.wallMicroseconds() / 1_000 - Self.day
        let name = "finished_jobs_" + Self.first(end).replacing("-", with: "").prefix(12)
        try connection.execute(
            script: """
                ALTER TABLE finished_jobs DETACH PARTITION \(last);
                ALTER TABLE \(last) RENAME TO \(name);
                ALTER TABLE finished_jobs ATTACH PARTITION \(name)
                    FOR VALUES FROM (MINVALUE) TO ('\(Self.first(end))');
                """)
        try addOld("meanwhile", days: 0, ended: 0)
        #expect(try rows("SELECT session FROM finished_jobs_rest") == ["meanwhile"])
        let node = try TestNode(database.url) { $0.historySeconds = 86_400 }
        defer { node.store.stop() }
        eventually("partitions are ahead again") { (try? partitions().count) ?? 0 >= 4 }
    }
}
