import FerryCore
import Postgres
import Synchronization
import TestSupport
import TestThreads
import Testing

@testable import FerryStore

/// Plans of statements that read a long history, as a thread of the store prepares them: once, for all
/// values, on whatever statistics there are.
///
/// A statement is added as a line of `cases`: its arguments in SQL, and how much it may read.
@Suite("Plans of reads", .serialized, .onOwnThread)
struct PlanTests {
    /// A statement with arguments for which it must stay cheap.
    struct Case {
        let name: String
        let statement: Statement
        let arguments: String
        /// Rows and index entries that all its scans together may visit.
        let rowCountMax: Int
        /// Pages that it may touch.
        let bufferCountMax: Int

        init(
            _ name: String, _ statement: Statement, _ arguments: String, rows: Int, buffers: Int
        ) {
            (self.name, self.statement, self.arguments) = (name, statement, arguments)
            (rowCountMax, bufferCountMax) = (rows, buffers)
        }
    }

    /// Statistics of the tables that the planner has.
    enum Statistics: CaseIterable {
        /// They were empty when the plan was made, and the plan stays.
        case early
        /// As `LongHistory` has analyzed them: few rows, all alike.
        case skewed
        /// Never analyzed, as in a database that is some minutes old.
        case none
        /// Analyzed before there was a row.
        case empty
        case current

        /// To be run in a transaction that is rolled back.
        fileprivate var script: String {
            switch self {
            case .early, .skewed: ""
            case .none: Self.forget(rowCount: -1)
            case .empty: Self.forget(rowCount: 0)
            case .current: "ANALYZE"
            }
        }

        private static func forget(rowCount: Int) -> String {
            """
            DELETE FROM pg_statistic;
            UPDATE pg_class SET reltuples = \(rowCount), relpages = 0
            WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'i', 'p');
            """
        }
    }

    /// Rows that a sort or a hash may take in: those of a page, never those of a table.
    private static let sortedRowCountMax = 1_000
    private static let turn = Limits.listTurnRowCount
    private static let last = "'ffffffff-ffff-ffff-ffff-ffffffffffff'"
    /// Of jobs in all partitions, as when an old job ends among fresh ones.
    private static let scattered =
        "ARRAY[" + (1...50).map { LongHistory.id($0 * 19_999) }.joined(separator: ", ") + "]"

    private static func jobs(
        _ name: String, tenant: String = "acme", before: String = last, session: String = "NULL",
        unfinished: String = "NULL", finished: String = "NULL", host: String = "NULL",
        createdAfter: String = "NULL",
        metadata: String = "NULL", schedule: String = "NULL", since: String = "NULL",
        isUnacknowledged: Bool = false, retryOf: String = "NULL", isRetried: String = "NULL",
        errors: String = "NULL", endedAfter: String = "NULL", endedBefore: String = "NULL",
        dimensions: String = "NULL",
        rows: Int = 300, buffers: Int = 500
    ) -> Case {
        Case(
            "jobs \(name)", Statements.listJobs,
            """
            '\(tenant)', \(before), \(session), \(unfinished), NULL, \(host), \(createdAfter), \(metadata),
            51, \(schedule), \(finished), NULL, \(since), \(turn), \(isUnacknowledged), false,
            \(retryOf), \(isRetried), \(errors), \(endedAfter), \(endedBefore), \(dimensions), NULL
            """, rows: rows, buffers: buffers)
    }

    /// A page that looks at as many rows as a turn may: each is found in one index, and its row by its id.
    private static func wholeTurn(_ make: (_ rows: Int, _ buffers: Int) -> Case) -> Case {
        make(2 * turn + 100, 5 * turn + 500)
    }

    private static let jobLists: [Case] = [
        jobs("of a tenant"),
        jobs("of a small tenant", tenant: "other"),
        jobs("of a tenant that has none", tenant: "nobody"),
        jobs("of a tenant that has none, in a session", tenant: "nobody", session: "'rare'"),
        jobs("of a tenant, far down", before: LongHistory.id(500_000)),
        jobs("of a session", session: "'often'"),
        jobs("of a small session", session: "'rare'"),
        wholeTurn { jobs("of the default session", session: "'default'", rows: $0, buffers: $1) },
        jobs("that are queued", unfinished: "'{queued}'", finished: "'{}'"),
        wholeTurn { jobs("that run", unfinished: "'{running}'", finished: "'{}'", rows: $0, buffers: $1) },
        wholeTurn { jobs("that failed", unfinished: "'{}'", finished: "'{failed}'", rows: $0, buffers: $1) },
        wholeTurn { jobs("of a host", host: "'example.com'", rows: $0, buffers: $1) },
        wholeTurn { jobs("with metadata", metadata: "'{\"order\": \"10\"}'", rows: $0, buffers: $1) },
        jobs(
            "of the last minutes", createdAfter: "to_timestamp(1702999900)",
            since: LongHistory.id(2_999_600)),
        jobs("of the future", createdAfter: "'2100-01-01'", since: LongHistory.id(9_000_000)),
        // Sorted: two scans of a turn.
        jobs("of a schedule", schedule: LongHistory.id(1), rows: turn + 150, buffers: turn + 500),
        jobs("that wait for an acknowledgement", isUnacknowledged: true),
        jobs("that retry a job", retryOf: LongHistory.id(1), rows: 10, buffers: 60),
        wholeTurn { jobs("that were retried", unfinished: "'{}'", isRetried: "true", rows: $0, buffers: $1) },
        wholeTurn { jobs("with an error", errors: "'{timed_out}'", rows: $0, buffers: $1) },
        wholeTurn {
            jobs(
                "that ended in an hour", unfinished: "'{}'", endedAfter: "to_timestamp(1700000000)",
                endedBefore: "to_timestamp(1700003600)", rows: $0, buffers: $1)
        },
        jobs("by state and reason", dimensions: "'{state,waiting_reason}'"),
    ]

    private static let jobReads: [Case] = [
        Case("jobs by id", Statements.readJobs, "\(scattered), true", rows: 100, buffers: 600),
        Case("known jobs", Statements.knownJobs, "\(scattered), 'acme'", rows: 100, buffers: 600),
        Case(
            "partial files of jobs", Statements.readRemovableFiles, "\(scattered), 60", rows: 100,
            buffers: 600),
        Case(
            "attempts of a job", Statements.readAttempts, "\(LongHistory.id(500_000)), 'acme'", rows: 2,
            buffers: 20),
        Case(
            "counts of a session", Statements.countSessionJobs, "'acme', 'often', 1000", rows: 1_000,
            buffers: 1_500),
        Case(
            "the first answer to a key", Statements.readKeys, "'{0}', '{acme}', '{5001}'", rows: 2,
            buffers: 20),
    ]

    private static func events(
        _ name: String, tenant: String = "acme", session: String = "NULL", types: Int = -1,
        since: String = "NULL, 8, NULL",
        rows: Int = 30, buffers: Int = 60
    ) -> Case {
        Case(
            "events \(name)", Statements.listEvents,
            "'\(tenant)', \(last), \(session), \(types), \(since), \(turn)",
            rows: rows, buffers: buffers)
    }

    private static let eventReads: [Case] = [
        events("of a tenant"),
        events("of a tenant that has none", tenant: "nobody"),
        events("of a session", session: "'often'"),
        events("of a small session", session: "'rare'"),
        events("of a rare type", types: 2_048, rows: turn + 10, buffers: 2 * turn),
        events("of a type that is not there", types: 4, rows: turn + 10, buffers: 2 * turn),
        events(
            "of the future", since: "'2100-01-01', 8, \(LongHistory.id(9_000_000))", rows: 2, buffers: 20),
        Case(
            "events that follow", Statements.followEvents, "\(LongHistory.id(500_000)), NULL, NULL, 8",
            rows: 30, buffers: 60),
        Case(
            "a tenant's events that follow", Statements.followEvents,
            "\(LongHistory.id(500_000)), 'acme', NULL, 8", rows: 30, buffers: 60),
        Case(
            "events that follow of a tenant that has none", Statements.followEvents,
            "\(LongHistory.id(5)), 'nobody', NULL, 8", rows: 30, buffers: 60),
        Case(
            "a session's events that follow", Statements.followEvents,
            "\(LongHistory.id(500_000)), 'acme', 'rare', 8", rows: 30, buffers: 60),
        Case(
            "events of a job", Statements.jobEvents,
            """
            'acme', 'default', \(LongHistory.id(500_001)),
            ARRAY[to_timestamp(1700500001), to_timestamp(1700500002)]
            """, rows: 60, buffers: 200),
        Case("whether an event is there", Statements.hasEvent, LongHistory.id(500_001), rows: 2, buffers: 10),
        Case("the last event", Statements.lastEvent, "", rows: 2, buffers: 10),
    ]

    private static let otherReads: [Case] = [
        Case(
            "deliveries of a job", Statements.listDeliveries,
            "'acme', \(last), \(LongHistory.id(50)), NULL, 51, NULL, NULL, \(turn)", rows: 250,
            buffers: 400),
        Case(
            "deliveries of an endpoint", Statements.listDeliveries,
            "'acme', \(last), NULL, NULL, 51, \(LongHistory.id(6)), NULL, \(turn)", rows: 200, buffers: 500),
        Case(
            "deliveries that were given up", Statements.listDeliveries,
            "'acme', \(last), NULL, 'given_up', 51, \(LongHistory.id(6)), NULL, \(turn)", rows: turn + 100,
            buffers: turn + 500),
        Case(
            "deliveries of an endpoint that has none", Statements.listDeliveries,
            "'acme', \(last), NULL, NULL, 51, \(LongHistory.id(7_777)), NULL, \(turn)", rows: 10,
            buffers: 50),
        Case(
            "a delivery", Statements.readDelivery, "\(LongHistory.id(500_001)), 'acme'", rows: 5,
            buffers: 20),
        Case("sessions", Statements.listSessions, "'acme', 'session 5', 51", rows: 300, buffers: 400),
        Case("a session", Statements.readSession, "'acme', 'session 5'", rows: 5, buffers: 20),
        Case("schedules", Statements.listSchedules, "'other', \(last), 51", rows: 60, buffers: 100),
        Case("webhooks", Statements.listWebhooks, "'other', \(last), 51", rows: 60, buffers: 100),
        Case("keys", Statements.listKeys, "\(last), 51", rows: 60, buffers: 100),
        Case("the audit", Statements.listAudit, "\(last), 51", rows: 110, buffers: 200),
        Case("the status", Statements.readStatus, "0, 200, NULL", rows: 600, buffers: 2_000),
    ]

    static let cases = jobLists + jobReads + eventReads + otherReads

    @Test(
        "each read visits a bounded number of rows and pages of a million jobs, whatever the statistics say",
        arguments: Statistics.allCases)
    func reads(statistics: Statistics) throws {
        let history = try LongHistory.shared.get()
        if statistics == .early {
            return try history.early.withLock { try check(&$0, statistics) }
        }
        var connection = try Connection(url: history.url, options: Self.options)
        try connection.execute(script: "BEGIN")
        try connection.execute(script: statistics.script)
        for (number, one) in Self.cases.enumerated() {
            try ReadPlan.prepare(one.statement, number, &connection)
        }
        try check(&connection, statistics)
        try connection.execute(script: "ROLLBACK")
    }

    /// Those of a connection for reads.
    static let options: ConnectionOptions = {
        var options = ConnectionOptions()
        ReadPool.adjust(&options)
        options.statementTimeout = nil
        options.idleInTransactionTimeout = nil
        options.resultTimeout = .seconds(120)
        return options
    }()

    private func check(_ connection: inout Connection, _ statistics: Statistics) throws {
        for (number, one) in Self.cases.enumerated() {
            let plan = try ReadPlan(one.arguments, number, &connection)
            let faults = plan.faults(
                rowCountMax: one.rowCountMax, sortedRowCountMax: Self.sortedRowCountMax,
                bufferCountMax: one.bufferCountMax)
            #expect(faults.isEmpty, "\(one.name), statistics \(statistics): \(faults)\n\(plan.text)")
        }
    }
}

/// Plan with which the server has executed a statement.
struct ReadPlan {
    private let root: JSON
    let text: String

    static func prepare(_ statement: Statement, _ number: Int, _ connection: inout Connection) throws {
        try connection.execute(script: "PREPARE plan_\(number) AS \(statement.sql)")
    }

    /// Makes the plan of the statement with that number; it stays until a table changes or is analyzed.
    static func plan(_ arguments: String, _ number: Int, _ connection: inout Connection) throws {
        try connection.execute(script: "EXPLAIN EXECUTE \(call(arguments, number))")
    }

    /// Executes the statement with that number.
    init(_ arguments: String, _ number: Int, _ connection: inout Connection) throws {
        let explain = Statement(
            "explain_\(number)",
            """
            EXPLAIN (ANALYZE, BUFFERS, TIMING off, FORMAT JSON) EXECUTE \(Self.call(arguments, number))
            """)
        text = try connection.execute(explain).text(0, 0)
        root = try #require(try JSON.parse(Array(text.utf8)).array?.first?["Plan"])
    }

    private static func call(_ arguments: String, _ number: Int) -> String {
        "plan_\(number)" + (arguments.isEmpty ? "" : "(\(arguments))")
    }

    /// Returns the faults of the plan; empty if it reads no more than it may.
    func faults(rowCountMax: Int, sortedRowCountMax: Int, bufferCountMax: Int) -> [String] {
        var faults: [String] = []
        var rowCount = 0.0
        Self.visit(root) { node in
            let type = node["Node Type"]?.string ?? ""
            let loops = node["Actual Loops"]?.double ?? 0
            let relation = node["Relation Name"]?.string
            if type == "Seq Scan", let relation, !Self.isSmall(relation) {
                faults.append("it reads \(relation) as a whole")
            }
            var counts = ["Rows Removed by Join Filter"]
            if relation != nil || type == "Bitmap Index Scan" {
                counts += ["Actual Rows", "Rows Removed by Filter", "Rows Removed by Index Recheck"]
            }
            rowCount += loops * counts.reduce(0) { $0 + (node[$1]?.double ?? 0) }
            if ["Sort", "Incremental Sort", "Hash", "Aggregate", "Unique"].contains(type) {
                let taken = (node["Plans"]?.array ?? []).reduce(0) {
                    $0 + ($1["Actual Rows"]?.double ?? 0) * ($1["Actual Loops"]?.double ?? 0)
                }
                if taken > Double(sortedRowCountMax) { faults.append("\(type) takes in \(taken) rows") }
            }
        }
        if rowCount > Double(rowCountMax) { faults.append("it visits \(rowCount) rows, not \(rowCountMax)") }
        let buffers = ["Shared Hit Blocks", "Shared Read Blocks"].reduce(0) { $0 + (root[$1]?.integer ?? 0) }
        if buffers > bufferCountMax { faults.append("it touches \(buffers) pages, not \(bufferCountMax)") }
        return faults
    }

    /// Tables of what operators set up and of nodes: they have a few rows, and no read gets slower with time.
    private static func isSmall(_ relation: String) -> Bool {
        [
            "job_counts", "nodes", "former_nodes", "operations", "settings", "session_epoch", "tenant_limits",
        ].contains(relation)
    }

    private static func visit(_ node: JSON, _ body: (JSON) -> Void) {
        body(node)
        for child in node["Plans"]?.array ?? [] { visit(child, body) }
    }
}
