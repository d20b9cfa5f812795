import Foundation
import Postgres
import Sys
import TestSupport
import TestThreads
import Testing

@testable import FerryStore

@Suite("SQL", .onOwnThread)
struct StatementTests {
    let database: TestDatabase

    init() throws { database = try TestDatabase(template: template) }

    @Test("every statement can be prepared, and has as many parameters as its constant")
    func parameters() throws {
        #expect(Set(Statements.all.map(\.name)) == (try Statements.fileNames))
        var connection = try Connection(url: database.url)
        for statement in Statements.all {
            try connection.execute(script: "PREPARE \(statement.name) AS \(statement.sql)")
        }
        let rows = try connection.execute(
            Statement(
                "prepared",
                """
                SELECT name, coalesce(cardinality(parameter_types), 0)
                FROM pg_prepared_statements WHERE from_sql
                """
            ))
        #expect(rows.rowCount == Statements.all.count)
        var counts: [String: Int] = [:]
        for row in 0..<rows.rowCount { counts[rows.text(row, 0)] = Int(rows.int32(row, 1)) }
        for statement in Statements.all { #expect(counts[statement.name] == statement.parameterCount) }
    }

    @Test("every table with a row for each job, or with frequent changes, sets autovacuum options")
    func vacuum() throws {
        var connection = try Connection(url: database.url)
        let rows = try connection.execute(
            Statement(
                "vacuum",
                """
                SELECT relname::text FROM pg_class
                WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND NOT coalesce(
                    array_to_string(reloptions, ',') LIKE '%autovacuum\\_vacuum%', false)
                """))
        let standard = Set((0..<rows.rowCount).map { rows.text($0, 0) })
        // What operators and clients set up, what is only added to, and what is replaced as a whole.
        #expect(
            standard.isSubset(of: [
                "api_keys", "audit", "content_store", "finished_jobs_rest", "operations", "rejected_events",
                "schema_migrations", "session_configurations", "session_credentials", "session_epoch",
                "settings",
                "tenant_limits", "webhooks",
            ]), "\(standard)")
    }

    /// State of the table at the time of its statistics, which the planner uses for a table in another state.
    enum Past: CaseIterable {
        case empty, young, large
        /// Vacuumed and analyzed while the queue was empty: believed to be empty whatever comes.
        case drained
    }

    @Test(
        "the hot statements find each job through an index, whatever the statistics say",
        arguments: Past.allCases)
    func plans(past: Past) throws {
        var options = ConnectionOptions()
        options.pinsPlans = true
        options.settings = [
            .init("plan_cache_mode", "force_generic_plan"), .init("ferry.shard", "test"),
            .init("ferry.claim_queues", ""), .init("ferry.permits", ";"),
        ]
        var connection = try Connection(url: database.url, options: options)
        let hot: [Statement] = [
            Statements.claimJobs, Statements.finishJobs, Statements.changeJobs, Statements.lockDueJobs,
            Statements.nextDue, Statements.heldJobs, Statements.checkLeases,
            Statements.lockJobsOfNode,
            Statements.readReceiverQueues, Statements.claimLimitedJobs, Statements.divertJobs,
            Statements.lockUnreachableJobs, Statements.lockWaitingJobs,
            Statements.divertRunning, Statements.findClaimQueues, Statements.lockClaimQueues,
            Statements.readPermits,
            Statements.scanClaimQueues, Statements.claimDeliveries, Statements.recordTries,
            Statements.readKeys,
            Statements.readAttempts, Statements.expiredJobs,
        ]
        for statement in hot {
            try connection.execute(script: "PREPARE \(statement.name) AS \(statement.sql)")
        }
        try prepare(past, &connection)
        for statement in hot {
            let arguments = Array(repeating: "NULL", count: statement.parameterCount).joined(separator: ", ")
            let call = arguments.isEmpty ? statement.name : "\(statement.name)(\(arguments))"
            let rows = try connection.execute(
                Statement("explain_\(statement.name)", "EXPLAIN EXECUTE \(call)"))
            let plan = (0..<rows.rowCount).map { rows.text($0, 0) }
            let text = "\(statement.name):\n" + plan.joined(separator: "\n")
            for (index, line) in plan.enumerated() {
                guard
                    let table = [
                        "jobs", "deliveries", "idempotency_keys", "claim_queues", "hosts", "host_limits",
                    ]
                    .first(where: {
                        line.contains(" on \($0) ")
                    })
                else { continue }
                #expect(!line.contains("Seq Scan on \(table)"), "\(text)")
                // In order, until enough rows are found; everything else must look its rows up.
                let isOrdered = ["jobs_waiting", "deliveries_receiver"].contains {
                    line.contains($0)
                }
                guard line.contains("Index Scan"), !isOrdered else { continue }
                #expect(plan[(index + 1)...].first?.contains("Index Cond") == true, "\(text)")
            }
        }
    }

    @Test("each index is used by the statements that its comment names")
    func indexes() throws {
        var pinned = ConnectionOptions()
        pinned.pinsPlans = true
        // Connections that change rows, and connections for reads.
        let plans = try [pinned, PlanTests.options].map(plans)
        let schema = Migrator.migrations.map { String(decoding: $0.sql, as: UTF8.self) }.joined()
        let indexes = schema.matches(of: /-- Used by ([a-z_,\s\-]+)\.\nCREATE INDEX (\w+) ON (\w+)/)
        #expect(indexes.count == schema.components(separatedBy: "\nCREATE INDEX ").count - 1)
        // EXPLAIN does not show the plans of a function.
        let functions = Dictionary(
            schema.matches(of: /CREATE FUNCTION (\w+)\([^;$]*\$\$([^$]*)\$\$/).map { (String($0.1), $0.2) },
            uniquingKeysWith: { first, _ in first })
        // The indexes of partitions have other names.
        for match in indexes where match.3 != "finished_jobs" {
            for name in match.1.matches(of: /[a-z_]+/) {
                let scans = ["using \(match.2) on", "Bitmap Index Scan on \(match.2) "]
                let isUsed =
                    plans.contains { plans in
                        scans.contains { plans[String(name.0)]?.contains($0) == true }
                    } || functions[String(name.0)]?.contains("FROM \(match.3) ") == true
                #expect(isUsed, "\(name.0) does not use \(match.2)")
            }
        }
    }

    /// Returns the generic plan of each statement, by name.
    private func plans(_ options: ConnectionOptions) throws -> [String: String] {
        var options = options
        options.settings += [
            .init("ferry.shard", "test"), .init("ferry.claim_queues", ""), .init("ferry.permits", ";"),
        ]
        var connection = try Connection(url: database.url, options: options)
        var plans: [String: String] = [:]
        for statement in Statements.all {
            try connection.execute(script: "PREPARE \(statement.name) AS \(statement.sql)")
            let arguments = Array(repeating: "NULL", count: statement.parameterCount).joined(separator: ", ")
            let call = statement.name + (arguments.isEmpty ? "" : "(\(arguments))")
            let rows = try connection.execute(
                Statement("explain_\(statement.name)", "EXPLAIN EXECUTE \(call)"))
            plans[statement.name] = (0..<rows.rowCount).map { rows.text($0, 0) }.joined(separator: "\n")
        }
        return plans
    }

    private func prepare(_ past: Past, _ connection: inout Connection) throws {
        let insert = """
            INSERT INTO claim_queues (id, tenant, session) VALUES (1000000, 'acme', 'default')
            ON CONFLICT DO NOTHING;
            INSERT INTO jobs (id, tenant, session, kind, state, priority, expires_at, origin, spec,
                created_at, queue, urgency)
            SELECT gen_random_uuid(), 'acme', 'default', 'download', 'queued', 0.5, now() + '1 day',
                'https://example.org:443', '{}', now(), 1000000, now()
            FROM generate_series(1, 10000);
            \(countRows("queued", 10_000))
            """
        switch past {
        case .empty: break
        case .young: try connection.execute(script: insert)
        case .large:
            try connection.execute(script: insert)
            try connection.execute(script: "ANALYZE jobs")
        case .drained:
            try connection.execute(script: insert)
            try connection.execute(script: "DELETE FROM jobs; \(countRows("queued", -10_000))")
            try connection.execute(script: "VACUUM ANALYZE jobs")
            try connection.execute(script: "VACUUM ANALYZE deliveries")
            try connection.execute(script: insert)
        }
    }

    @Test(
        "no statement reads a whole backlog of deliveries, analyzed or not", arguments: [false, true])
    func deliveryPlans(isAnalyzed: Bool) throws {
        var options = ConnectionOptions()
        options.pinsPlans = true
        options.settings = [
            .init("plan_cache_mode", "force_generic_plan"), .init("ferry.shard", "test"),
        ]
        var connection = try Connection(url: database.url, options: options)
        try connection.execute(script: "ALTER TABLE deliveries SET (autovacuum_enabled = off)")
        try connection.execute(
            script: """
                INSERT INTO deliveries (id, event, job, sequence, occurred_at, next_try_at, type, tenant,
                    session, url, job_json, endpoint)
                SELECT gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), i, now(), now(),
                    'job.succeeded', 'acme', 'default', 'https://old.example/', '{}',
                    md5((i % 20)::text)::uuid
                FROM generate_series(1, 20000) i;
                \(countRows("deliveries_pending", 20_000))
                INSERT INTO webhooks (id, created_at, updated_at, disable_after, is_enabled, is_ordered,
                    format, tenant, url, retry_delays, disabled_reason, public_key, keys)
                SELECT md5(i::text)::uuid, now(), now(), 1, i >= 20, false, 'standard', 'acme', '', '{}',
                    CASE WHEN i < 20 THEN 'requested' END, '', ''
                FROM generate_series(0, 21) i;
                INSERT INTO sessions (tenant, name, last_sequence, is_drained)
                VALUES ('acme', 'default', 20000, true)
                """)
        if isAnalyzed { try connection.execute(script: "VACUUM ANALYZE deliveries") }
        let receiver = "'{cfcd2084-95d5-65ef-66e7-dff9f98764da}'"
        let calls: [(Statement, String)] = [
            (Statements.claimDeliveries, "512, 30, \(receiver), '{64}', '{f}', NULL, 16384"),
            (Statements.takeBackDeliveries, "'cfcd2084-95d5-65ef-66e7-dff9f98764da', 30"),
            (Statements.readReceiverQueues, "'00000000-0000-0000-0000-000000000000', 1000"),
            (
                Statements.recordTries,
                "\(receiver), '{1}', '{now}', '{1}', '{200}', '{NULL}', '{a}', '{accepted}', '{NULL}'"
            ),
            (Statements.drainedSessions, "'', '', 100"),
            (Statements.drainSessions, "'{acme}', '{default}', 0, now()"),
            (Statements.readStatus, "0, 200, NULL"),
        ]
        for (statement, arguments) in calls {
            try connection.execute(script: "PREPARE \(statement.name) AS \(statement.sql)")
            let call = "\(statement.name)(\(arguments))"
            let rows = try connection.execute(
                Statement(
                    "explain_\(statement.name)", "EXPLAIN (ANALYZE, TIMING off, COSTS off) EXECUTE \(call)"))
            let plan = (0..<rows.rowCount).map { rows.text($0, 0) }
            let text: Comment = "\(statement.name):\n\(plan.joined(separator: "\n"))"
            for line in plan where line.contains(" on deliveries") && line.contains("rows=") {
                #expect(!line.contains("Seq Scan"), text)
                let count = line.split(separator: "actual rows=").last?.prefix { $0.isNumber || $0 == "." }
                #expect((count.flatMap { Double($0) } ?? 0) <= 64, text)
            }
            #expect(!plan.contains { $0.contains("Rows Removed by Filter") && $0.contains("0000") }, text)
        }
    }

    @Test("migrations are applied once by several processes; a newer schema is refused")
    func migrations() throws {
        #expect(try Migrator.migrate(url: database.url) == [])
        #expect(try Migrator.check(url: database.url).isCurrent)
        let empty = try TestDatabase()
        #expect(try Migrator.check(url: empty.url).found == 0)
        let versionCount = Migrator.migrations.count
        let done = Mailbox<[Int]>()
        let threads = (0..<3).map { _ in
            Thread(name: "migrate") { [url = empty.url] in
                done.send((try? Migrator.migrate(url: url)) ?? [-1])
            }
        }
        threads.forEach { $0.join() }
        let applied = done.take()
        #expect(applied.map(\.count).sorted() == [0, 0, versionCount])
        var connection = try Connection(url: empty.url)
        try connection.execute(script: "INSERT INTO schema_migrations VALUES (99, 'future')")
        for call in [
            { try Migrator.migrate(url: empty.url) }, { [try Migrator.check(url: empty.url).found] },
        ] {
            let error = try #require(throws: MigrationError.self) { try call() }
            #expect("\(error)".contains("schema version 99"), "\(error)")
        }
    }

    @Test("a database with a migration of another name is refused and not changed")
    func unreleased() throws {
        let old = try TestDatabase()
        var connection = try Connection(url: old.url)
        let later = Migrator.Migration(version: 2, name: "later", sql: Array("CREATE TABLE later ()".utf8))
        for name in ["jobs", "baseline"] {
            try connection.execute(
                script: """
                    DROP TABLE IF EXISTS schema_migrations;
                    CREATE TABLE schema_migrations (version integer, name text);
                    INSERT INTO schema_migrations VALUES (1, '\(name)'), (2, 'deliveries')
                    """)
            let error = try #require(throws: MigrationError.self) {
                try Migrator.migrate(url: old.url, to: Migrator.migrations + [later])
            }
            #expect("\(error)".contains("new, empty database"), "\(error)")
        }
        let tables = try connection.execute(
            Statement(
                "tables",
                "SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace"))
        #expect(tables.int64(0, 0) == 1)
    }

    @Test("a migration gives up when a table is locked, and tries again as often as the caller wants")
    func heldUp() throws {
        let old = try TestDatabase()
        try Migrator.migrate(url: old.url)
        let later = Migrator.Migration(
            version: 2, name: "later", sql: Array("ALTER TABLE jobs ADD COLUMN later integer".utf8))
        func migrate(triesAgain: (PostgresError) -> Bool = { _ in false }) throws -> [Int] {
            try Migrator.migrate(url: old.url, to: Migrator.migrations + [later], triesAgain: triesAgain)
        }
        var holder = try Connection(url: old.url)
        // As a dump does it, for as long as it takes.
        try holder.execute(
            script: """
                SET idle_in_transaction_session_timeout = 0;
                BEGIN; LOCK TABLE jobs IN ACCESS SHARE MODE
                """)
        #expect(throws: MigrationError.self) { try migrate() }
        var (states, answers): ([String?], [Bool]) = ([], [])
        let applied = try migrate { error in
            states.append(error.sqlState)
            answers.append((try? Self.reads(old.url)) == true)
            if states.count == 2 { holder.close() }
            return true
        }
        #expect(applied == [2])
        #expect(states.prefix(2) == ["55P03", "55P03"])
        #expect(answers.allSatisfy { $0 }, "other sessions read the table meanwhile")
    }

    private static func reads(_ url: String) throws -> Bool {
        var connection = try Connection(url: url)
        return try connection.execute(Statement("count_held", "SELECT count(*) FROM jobs")).int64(0, 0) == 0
    }

    @Test("the session room is the least that server, role and database leave")
    func freeSessionCount() throws {
        let empty = try TestDatabase()
        var connection = try Connection(url: empty.url)
        try connection.execute(script: "CREATE ROLE few LOGIN CONNECTION LIMIT 7")
        let ofRole = empty.url.replacingOccurrences(of: "user=postgres", with: "user=few")
        let others = Statement(
            "other_sessions",
            """
            SELECT count(*) FROM pg_stat_activity
            WHERE datname = current_database() AND pid <> pg_backend_pid()
            """)
        // The server still counts a session that was closed a moment ago.
        func freeSessionCount(_ url: String) throws -> Int64? {
            try eventually("earlier sessions have ended") { try connection.execute(others).int64(0, 0) == 0 }
            return try Migrator.freeSessionCount(url: url)
        }
        #expect(try #require(try freeSessionCount(empty.url)) > 20)
        #expect(try freeSessionCount(ofRole) == 7)
        // One of them is this connection's.
        try connection.execute(
            script: """
                DO $$BEGIN
                    EXECUTE format('ALTER DATABASE %I CONNECTION LIMIT 4', current_database());
                END$$
                """)
        #expect(try freeSessionCount(ofRole) == 3)
        #expect(try #require(try freeSessionCount(empty.url)) > 20, "superusers have no limit")
        try connection.execute(script: "DROP ROLE few")
    }
}
