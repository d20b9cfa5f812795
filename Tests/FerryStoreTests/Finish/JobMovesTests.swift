import FerryCore
import Postgres
import TestSupport
import TestThreads
import Testing

@testable import FerryStore

/// Every statement that changes the state of a job, run from every state and with every request that a client
/// may have made: what happens is what the transition table says (`JobTransition`).
@Suite("State changes of a job", .onOwnThread)
struct JobMovesTests {
    private struct Row: Equatable {
        var state: String
        var waitingFor: String?
        var revision: Int32
        var attempt: Int32
        var hasNode: Bool
        var suspends: Bool
        var cancels: Bool
        var waits: Int32
        var event: UInt8?
    }

    private enum Request: CaseIterable { case none, cancellation, suspension, both }

    private static let job = "00000000-0000-0000-0000-000000000001"
    private static let node = "00000000-0000-0000-0000-000000000002"
    private static let queue = 7
    private static let unfinished = JobState.allCases.filter { !$0.isTerminal }

    /// Inputs that change_jobs.sql carries out.
    private static let inputs = JobInput.allCases.filter { input in
        let origins = JobTransition.origins(of: input)
        return origins.allSatisfy { $0.map { !$0.isTerminal } ?? false }
            && ![.claim, .succeed, .fail, .cancel].contains(input)
    }

    private let database: TestDatabase

    init() throws { database = try TestDatabase(template: template) }

    private func connect() throws -> Connection {
        var options = ConnectionOptions()
        options.settings = [.init("ferry.shard", "test")]
        return try Connection(url: database.url, options: options)
    }

    private var jobID: JobID { JobID(high: 0, low: 1) }

    /// Inserts the job, runs `body`, reads the job and the counts, and rolls back.
    private func row(
        from before: JobState, _ request: Request, isHeld: Bool = false, _ connection: inout Connection,
        _ body: (inout Connection) throws -> Void
    ) throws -> (row: Row, counts: [Int64]) {
        try connection.execute(script: "BEGIN")
        defer { try? connection.execute(script: "ROLLBACK") }
        let isRunning = before == .running
        let mayBeCancelled = isRunning || before == .queued
        let cancels = mayBeCancelled && [.cancellation, .both].contains(request)
        let suspends = isRunning && [.suspension, .both].contains(request)
        try connection.execute(
            script: """
                INSERT INTO jobs (
                    id, created_at, next_attempt_at, started_at, expires_at, node, revision, attempt,
                    priority, kind, state, waiting_for, tenant, session, origin, spec, queue, urgency,
                    is_repeatable, awaits_host, cancel_requested, suspend_requested)
                VALUES ('\(Self.job)', now() - interval '1 hour', NULL,
                    \(isHeld ? "NULL" : "now() - interval '1 minute'"), 'tomorrow',
                    \(isRunning ? "'\(Self.node)'" : "NULL"), 5, 3, 0.5, 'data',
                    '\(isHeld ? "queued" : before.rawValue)',
                    \(before == .waiting ? "'begin_date'" : "NULL"), 'acme', 'default',
                    'http://a.example:80', '{}', \(Self.queue), now(), true, true, \(cancels), \(suspends));
                """)
        try body(&connection)
        let found = try connection.execute(
            Statement(
                "state",
                """
                SELECT state::text, waiting_for::text, revision, attempt, node IS NOT NULL, suspend_requested,
                    cancel_requested, connectivity_waits,
                    (SELECT get_byte(packed, 0) FROM event_inbox WHERE length(packed) > 0) FROM jobs
                UNION ALL
                SELECT state::text, NULL, revision, attempt, node IS NOT NULL, false, false, 0,
                    (SELECT get_byte(packed, 0) FROM event_inbox WHERE length(packed) > 0) FROM finished_jobs
                """))
        try #require(found.rowCount == 1)
        let row = Row(
            state: found.text(0, 0), waitingFor: found.textOrNil(0, 1), revision: found.int32(0, 2),
            attempt: found.int32(0, 3), hasNode: found.bool(0, 4), suspends: found.bool(0, 5),
            cancels: found.bool(0, 6), waits: found.int32(0, 7),
            event: found.int32OrNil(0, 8).map { UInt8($0) })
        let counts = try connection.execute(
            Statement(
                "counts",
                """
                SELECT coalesce(sum(waiting), 0)::bigint, coalesce(sum(queued), 0)::bigint,
                    coalesce(sum(running), 0)::bigint, coalesce(sum(suspended), 0)::bigint FROM job_counts
                """))
        return (row, (0..<4).map { counts.int64(0, $0) })
    }

    /// Returns the changes that the table defines for the job that `row(from:)` inserts; `nil` if it stays as
    /// it is.
    private func expected(
        _ input: JobInput, _ before: JobState, _ request: Request, isHeld: Bool = false
    ) -> Row? {
        guard let plain = JobTransition(input, from: before) else { return nil }
        let isRunning = before == .running
        let cancels = (isRunning || before == .queued) && [.cancellation, .both].contains(request)
        let suspends = isRunning && [.suspension, .both].contains(request)
        let transition = plain.after(cancellationRequested: cancels, suspensionRequested: suspends)
        let effects = transition.effects
        // Nothing is suspended whose cancellation was requested, and only a request that was made is
        // withdrawn.
        if effects.contains(.requestsSuspension), cancels { return nil }
        if effects.contains(.withdrawsSuspension), !suspends { return nil }
        // A begin is recorded once.
        if effects.contains(.recordsBegin), !isHeld { return nil }
        let keepsState = effects.contains(.keepsState)
        return Row(
            state: keepsState && isHeld ? "queued" : (transition.state ?? before).rawValue,
            waitingFor: keepsState && before == .waiting ? "begin_date" : transition.waitingFor?.rawValue,
            revision: effects.contains(.revises) ? 6 : 5,
            attempt: effects.contains(.beginsAttempt) ? 4 : 3,
            hasNode: keepsState ? isRunning : transition.state == .running,
            suspends: effects.contains(.requestsSuspension)
                || !effects.contains(.endsAttempt) && suspends && !effects.contains(.withdrawsSuspension),
            cancels: cancels || effects.contains(.requestsCancellation),
            waits: effects.contains(.countsWait) ? 1 : 0, event: transition.event?.code)
    }

    private func delta(_ before: JobState, _ after: String) -> [Int64] {
        ["waiting", "queued", "running", "suspended"].map { state in
            (state == after ? 1 : 0) - (state == before.rawValue ? 1 : 0)
        }
    }

    @Test("change_jobs.sql does what the transition table says")
    func changes() throws {
        var connection = try connect()
        #expect(Self.inputs.count > 20)
        for input in Self.inputs {
            for before in Self.unfinished {
                for request in Request.allCases {
                    let (found, counts) = try row(from: before, request, &connection) { connection in
                        var change = JobChange(input, jobID)
                        (change.attempt, change.revision) = (3, 5)
                        _ = try ChangedJob.commit([change], &connection)
                    }
                    let name = "\(input) from \(before), \(request)"
                    if let expected = expected(input, before, request) {
                        #expect(found == expected, "\(name)")
                    } else {
                        #expect(found.state == before.rawValue && found.revision == 5, "\(name)")
                        #expect(found.event == nil, "\(name)")
                    }
                    #expect(counts == delta(before, found.state), "\(name)")
                }
            }
        }
    }

    @Test("a job that a node holds since its submission counts as running and is shown as queued")
    func held() throws {
        var connection = try connect()
        for input in Self.inputs {
            for request in Request.allCases {
                let (found, counts) = try row(from: .running, request, isHeld: true, &connection) {
                    connection in
                    var change = JobChange(input, jobID)
                    (change.attempt, change.revision) = (3, 5)
                    _ = try ChangedJob.commit([change], &connection)
                }
                let name = "\(input), \(request)"
                if let expected = expected(input, .running, request, isHeld: true) {
                    #expect(found == expected, "\(name)")
                } else {
                    #expect(found.state == "queued" && found.hasNode && found.event == nil, "\(name)")
                }
                #expect(counts == delta(.queued, found.state), "\(name)")
            }
        }
    }

    @Test("a job with another attempt or revision stays as it is")
    func fences() throws {
        var connection = try connect()
        for (attempt, revision) in [(2, 5), (4, 5), (3, 4), (3, 6)] as [(Int32, Int32)] {
            let (found, counts) = try row(from: .running, .none, &connection) { connection in
                var change = JobChange(.retry, jobID)
                (change.attempt, change.revision) = (attempt, revision)
                let changed = try ChangedJob.commit([change], &connection)
                #expect(changed.isEmpty)
            }
            #expect(found.state == "running" && found.event == nil && counts == [0, 0, 0, 0])
        }
    }

    @Test("only the first wait for connectivity has an event, and the pauses grow")
    func waits() throws {
        var connection = try connect()
        _ = try row(from: .running, .none, &connection) { connection in
            var pauses: [Double] = []
            for _ in 0..<3 {
                try connection.execute(
                    script: """
                        UPDATE jobs SET state = 'running', waiting_for = NULL, node = '\(Self.node)';
                        """)
                var change = JobChange(.missOrigin, jobID)
                change.pause = 1
                let all = try ChangedJob.commit([change], &connection)
                let changed = try #require(all.first)
                let now = try connection.execute(Statement("now", "SELECT now()")).instant(0, 0)
                let due = try #require(changed.dueAt)
                pauses.append(due - now)
            }
            #expect(pauses == [1, 2, 4])
            let told = try connection.execute(Statement("told", "SELECT FROM event_inbox")).rowCount
            #expect(told == 1)
            try connection.execute(script: "DELETE FROM event_inbox")
        }
    }

    @Test("claims and the end of a job do what the transition table says")
    func claimsAndEnds() throws {
        var connection = try connect()
        let claims: [(Statement, arguments: String, before: String)] = [
            (
                Statements.claimJobs,
                "'{\(Self.queue)}', '{10}', '\(Self.node)', now(), false, false, false, '{-infinity}', 15, "
                    + "'{f}', '{NULL}', 10", ""
            ),
            (
                Statements.claimLimitedJobs, "'\(Self.node)', now(), false, false, false",
                "SET LOCAL ferry.permits = '\(Self.queue);10';"
            ),
        ]
        for before in Self.unfinished {
            for (statement, arguments, script) in claims {
                let (found, counts) = try row(from: before, .none, &connection) { connection in
                    if !script.isEmpty { try connection.execute(script: script) }
                    try run(statement, arguments, &connection)
                }
                var expected = expected(.claim, before, .none)
                // Only the first attempt has the event, and the row says that an earlier one has begun.
                expected?.event = nil
                #expect(expected.map { $0 == found } ?? (found.state == before.rawValue))
                #expect(counts == delta(before, found.state))
            }
            for (state, input) in [
                (JobState.succeeded, JobInput.succeed), (.failed, .fail), (.cancelled, .cancel),
            ] {
                let (found, counts) = try row(from: before, .none, &connection) { connection in
                    try run(
                        Statements.finishJobs,
                        """
                        '{\(Self.job)}', '{3}', '{5}', '{\(state.rawValue)}', '{0}', '{NULL}', '{NULL}',
                        '{"{}"}', '{NULL}', '{now}', '{NULL}', '{""}', '{NULL}', '{NULL}', '{}', '{}', '{}',
                        '{}', '{NULL}', '{NULL}', NULL, NULL
                        """, &connection)
                }
                let after = JobTransition(input, from: before)?.state ?? before
                #expect(found.state == after.rawValue, "\(input) from \(before)")
                #expect(counts == delta(before, found.state))
            }
        }
    }

    /// Runs a statement with arguments as PostgreSQL reads them.
    private func run(_ statement: Statement, _ arguments: String, _ connection: inout Connection) throws {
        try connection.execute(
            script: """
                PREPARE \(statement.name) AS \(statement.sql);
                EXECUTE \(statement.name)(\(arguments));
                DEALLOCATE \(statement.name)
                """)
    }

    /// These move a job to another claim queue, or change its fields, and say nothing of its state.
    private static let others: Set<String> = [
        "add_dependencies", "flag_dependencies", "divert_jobs", "divert_running", "restore_claim_queues",
        "edit_spec", "mark_requests",
    ]

    @Test("no other statement changes unfinished jobs")
    func complete() {
        let known = Self.others.union(["change_jobs", "claim_jobs", "claim_limited_jobs", "finish_jobs"])
        let changing = Statements.all.filter {
            $0.sql.contains("UPDATE jobs ") || $0.sql.contains("DELETE FROM jobs ")
        }
        #expect(Set(changing.map(\.name)) == known)
    }
}
