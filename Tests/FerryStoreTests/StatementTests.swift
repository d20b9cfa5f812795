import FerryStore
import Postgres
import Sys
import TestSupport
import Testing

@Suite("SQL")
struct StatementTests {
    let database: TestDatabase

    init() throws { database = try TestDatabase(template: template) }

    @Test("every statement can be prepared and has the parameters that its constant says")
    func parameters() throws {
        var connection = try Connection(url: database.url)
        for statement in Statements.all {
            try connection.execute(script: "PREPARE \(statement.name) AS \(statement.sql)")
        }
        let rows = try connection.execute(
            Statement(
                "prepared",
                "SELECT name, coalesce(cardinality(parameter_types), 0) FROM pg_prepared_statements WHERE from_sql"))
        #expect(rows.rowCount == Statements.all.count)
        var counts: [String: Int] = [:]
        for row in 0..<rows.rowCount { counts[rows.text(row, 0)] = Int(rows.int32(row, 1)) }
        for statement in Statements.all { #expect(counts[statement.name] == statement.parameterCount) }
    }

    @Test(
        "the hot statements never scan or sort the jobs: on an empty table, a young backlog, a large analyzed table",
        arguments: [(0, false), (5_000, false), (100_000, true)])
    func plans(rowCount: Int, isAnalyzed: Bool) throws {
        var options = ConnectionOptions()
        options.pinsPlans = true
        options.settings = [.init("plan_cache_mode", "force_generic_plan"), .init("ferry.shard", "test")]
        var connection = try Connection(url: database.url, options: options)
        let hot = [
            (Statements.claimJobs, "200, gen_random_uuid(), now()"),
            (
                Statements.finishJobs,
                "'{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}'"
            ),
            (Statements.retryJobs, "'{}', '{}', '{}', '{}', '{}', '{}'"),
            (Statements.releaseJobs, "'{}', '{}', '{}'"),
            (Statements.promoteJobs, "500"),
            (Statements.nextDue, ""),
            (Statements.heldJobs, "gen_random_uuid()"),
        ]
        for (statement, _) in hot {
            try connection.execute(script: "PREPARE \(statement.name) AS \(statement.sql)")
        }
        try connection.execute(
            script: """
                INSERT INTO jobs (id, tenant, session, kind, state, priority, expires_at, origin, spec, created_at)
                SELECT gen_random_uuid(), 'acme', 'default', 'download', 'queued', 0.5, now() + '1 day',
                    'https://example.org:443', '{}', now()
                FROM generate_series(1, \(rowCount));
                """)
        if isAnalyzed { try connection.execute(script: "ANALYZE jobs") }
        for (statement, arguments) in hot {
            let call = arguments.isEmpty ? statement.name : "\(statement.name)(\(arguments))"
            let rows = try connection.execute(Statement("explain_\(statement.name)", "EXPLAIN EXECUTE \(call)"))
            let plan = (0..<rows.rowCount).map { rows.text($0, 0) }.joined(separator: "\n")
            #expect(!plan.contains("Seq Scan on jobs"), "\(statement.name):\n\(plan)")
            if [Statements.claimJobs.name, Statements.promoteJobs.name].contains(statement.name) {
                #expect(!plan.contains("Sort"), "\(statement.name):\n\(plan)")
                #expect(plan.contains("jobs_queued") || plan.contains("jobs_waiting"))
            }
        }
    }

    @Test("migrations can be applied again and by several at once; a newer schema is refused")
    func migrations() throws {
        #expect(try Migrator.migrate(url: database.url) == [])
        #expect(try Migrator.check(url: database.url).isCurrent)
        let empty = try TestDatabase()
        #expect(try Migrator.check(url: empty.url).found == 0)
        let done = Mailbox<[Int]>()
        let threads = (0..<3).map { _ in
            Thread(name: "migrate") { [url = empty.url] in
                done.send((try? Migrator.migrate(url: url)) ?? [-1])
            }
        }
        threads.forEach { $0.join() }
        let applied = done.take()
        #expect(applied.filter { $0 == [1, 2, 3] }.count == 1 && applied.filter(\.isEmpty).count == 2)
        var connection = try Connection(url: empty.url)
        try connection.execute(script: "INSERT INTO schema_migrations VALUES (99, 'future')")
        #expect(throws: MigrationError.self) { try Migrator.migrate(url: empty.url) }
        #expect(try Migrator.check(url: empty.url).found == 99)
    }
}
