import FerryCore
import Postgres
import TestSupport
import TestThreads
import Testing

@testable import FerryStore

/// Every statement that may change a job's state, run from every state: what really happens is what
/// `JobStateMachine` says.
@Suite("State changes of a job", .onOwnThread)
struct JobMovesTests {
    typealias Input = JobStateMachine.Input

    /// One way to run one statement.
    struct Move: Sendable {
        let statement: Statement
        /// What it is meant to do; nil: it leaves the state alone.
        let input: Input?
        /// As PostgreSQL reads them.
        let arguments: String
        /// What a waiting job waits for.
        var waitingFor = "begin_date"
        /// What else the row has, as an assignment.
        var with: String?
        /// What is there besides.
        var before = ""
    }

    static let job = "00000000-0000-0000-0000-000000000001"
    private static let node = "00000000-0000-0000-0000-000000000002"
    private static let lot = 7
    /// Identifiers, attempts and revisions.
    private static let lease = "'{\(job)}', '{3}', '{5}'"
    private static let suspending = "suspend_requested = (state = 'running')"
    private static let cancelling = "cancel_requested = (state = 'running')"
    private static let asking = #"asks = true, question = '{}'"#
    private static let away =
        "INSERT INTO hosts (origin, unreachable) VALUES ('http://a.example:80', 'could_not_connect');"

    private static func lastBeat(_ instant: String) -> String {
        """
        INSERT INTO nodes (id, name, version, started_at, heartbeat_at, running, draining, is_worker)
        VALUES ('\(node)', 'test', '0', now(), '\(instant)', 1, false, true);
        """
    }

    private static func ending(
        _ statement: Statement, _ input: Input, _ arguments: String
    ) -> [Move] {
        let arguments = "\(lease), \(arguments)"
        return [
            Move(statement: statement, input: input, arguments: arguments),
            Move(statement: statement, input: .suspend, arguments: arguments, with: suspending),
            Move(statement: statement, input: .release, arguments: arguments, with: cancelling),
        ]
    }

    private static func finish(_ state: JobState, _ input: Input) -> Move {
        Move(
            statement: Statements.finishJobs, input: input,
            arguments: """
                \(lease), '{\(state.rawValue)}', '{0}', '{NULL}', '{NULL}', '{"{}"}', '{NULL}', '{now}',
                '{NULL}', '{""}', '{NULL}', '{NULL}', '{}', '{}', '{}', '{}'
                """)
    }

    private static func edit(_ input: Input?, isMoved: Bool, _ date: String) -> Move {
        Move(
            statement: Statements.editJob, input: input,
            arguments: """
                '\(job)', 5, '{}', NULL, 0.5, 'tomorrow', 'http://a.example:80', \(isMoved), \(date), NULL,
                \(lot), now(), false, false, NULL, '/', true, true
                """)
    }

    static let clients: [Move] = [
        Move(statement: Statements.suspendJob, input: .suspend, arguments: "'\(job)', 5"),
        Move(statement: Statements.requestSuspend, input: nil, arguments: "'\(job)', 5"),
        Move(statement: Statements.requestCancel, input: nil, arguments: "'\(job)', 5, false"),
        Move(statement: Statements.requestCancels, input: nil, arguments: "'{\(job)}'"),
        Move(statement: Statements.resumeJob, input: .resume, arguments: "'\(job)', 5, NULL, NULL, NULL"),
        Move(
            statement: Statements.resumeJob, input: .resumeLater,
            arguments: "'\(job)', 5, 'tomorrow', NULL, NULL"),
        Move(
            statement: Statements.resumeJob, input: .resumeLater,
            arguments: "'\(job)', 5, 'tomorrow', now(), 1"),
        Move(
            statement: Statements.resumeJob, input: .resumeLater, arguments: "'\(job)', 5, NULL, NULL, NULL",
            before: "INSERT INTO job_dependencies VALUES (gen_random_uuid(), '\(job)');"),
        Move(
            statement: Statements.resumeJob, input: .resumeLater, arguments: "'\(job)', 5, NULL, NULL, NULL",
            with: "asks = true"),
        edit(nil, isMoved: false, "NULL"), edit(.becomeDue, isMoved: true, "NULL"),
        edit(.putOff, isMoved: true, "'tomorrow'"),
        Move(
            statement: Statements.answerJob, input: .becomeDue,
            arguments: """
                '\(job)', 5, '{}', 'http://a.example:80', false, NULL, NULL, NULL, \(lot), '/', true, true
                """,
            waitingFor: "challenge", with: asking),
        Move(
            statement: Statements.answerJob, input: nil,
            arguments: """
                '\(job)', 5, '{}', 'http://a.example:80', false, NULL, '{}', 'tomorrow', \(lot), '/', true,
                true
                """,
            waitingFor: "challenge", with: asking),
    ]

    static let times: [Move] = [
        Move(
            statement: Statements.promoteJobs, input: .becomeDue, arguments: "10",
            with: "next_attempt_at = now()"),
        Move(
            statement: Statements.promoteJobs, input: nil, arguments: "10",
            with: "next_attempt_at = 'tomorrow'"),
        Move(
            statement: Statements.startJobs, input: .becomeDue, arguments: "'{\(job)}'",
            waitingFor: "discretionary"),
        Move(
            statement: Statements.releaseWaiting, input: .becomeDue, arguments: "'http://a.example:80', 10",
            waitingFor: "connectivity"),
        Move(
            statement: Statements.releaseDependents, input: .becomeDue, arguments: "'{\(job)}'",
            waitingFor: "dependency"),
        Move(
            statement: Statements.deferJobs, input: nil, arguments: "'{\(job)}', '{now}', '{1}'",
            with: "next_attempt_at = 'tomorrow'"),
        Move(
            statement: Statements.askBegins, input: nil, arguments: "'{\(job)}', '{\"{}\"}', '{tomorrow}'",
            with: "asks = true"),
        Move(
            statement: Statements.awaitHosts, input: .putOff,
            arguments: "'{\(lot)}', 10, '{could_not_connect}', '{\"{}\"}'", before: away),
    ]

    static let nodes: [Move] = [
        Move(
            statement: Statements.claimJobs, input: .lease,
            arguments: "'{\(lot)}', '{10}', '\(node)', now(), false, false, false, '{-infinity}', 15, "
                + "'{f}', '{NULL}', 10"),
        Move(
            statement: Statements.claimLimitedJobs, input: .lease,
            arguments: "'\(node)', now(), false, false, false",
            before: "SET LOCAL ferry.permits = '\(lot);10';"),
        Move(statement: Statements.reclaimJobs, input: .release, arguments: "'\(node)', '{}'"),
        Move(statement: Statements.rescueJobs, input: .release, arguments: "'{}', '{}', 10, '{}', true"),
        Move(
            statement: Statements.rescueJobs, input: .release,
            arguments: "'{\(node)}', '{yesterday}', 10, '{}', false", before: lastBeat("yesterday")),
        // It has said something since.
        Move(
            statement: Statements.rescueJobs, input: nil,
            arguments: "'{\(node)}', '{yesterday}', 10, '{}', true", before: lastBeat("today")),
        Move(
            statement: Statements.reclaimJobs, input: .suspend, arguments: "'\(node)', '{}'",
            with: suspending),
        Move(
            statement: Statements.rescueJobs, input: .suspend, arguments: "'{}', '{}', 10, '{}', true",
            with: suspending),
        Move(statement: Statements.suspendJobs, input: .release, arguments: "\(lease), '{NULL}', '{f}'"),
        finish(.succeeded, .succeed), finish(.failed, .fail), finish(.cancelled, .cancel),
        Move(
            statement: Statements.suspendJobs, input: .suspend, arguments: "\(lease), '{NULL}', '{f}'",
            with: suspending),
    ]

    private static let ends: [[Move]] = [
        ending(Statements.releaseJobs, .release, "'{NULL}', '{f}', '{NULL}', '{NULL}'"),
        ending(Statements.retryJobs, .wait, #"'{1}', '{tomorrow}', '{"{}"}', '{NULL}', '{f}', '{now}'"#),
        ending(Statements.awaitConnectivity, .wait, #"'{1}', '{"{}"}', '{NULL}', '{f}', '{f}'"#),
        ending(Statements.awaitConnectivity, .wait, #"'{1}', '{"{}"}', '{NULL}', '{f}', '{t}'"#),
        ending(Statements.askJobs, .wait, #"'{challenge}', '{"{}"}', '{tomorrow}', '{NULL}', '{f}'"#),
    ]

    static let all: [Move] = clients + times + nodes + ends.flatMap(\.self)

    /// These move a job to another lot, or mark it, and say nothing of its state.
    private static let others: Set<String> = [
        "add_dependencies", "flag_dependencies", "divert_jobs", "divert_running", "mend_lots",
    ]

    private let database: TestDatabase

    init() throws { database = try TestDatabase(template: template) }

    /// Where the job is after the statement; a transaction that is rolled back.
    private func state(
        after move: Move, from before: JobState, _ connection: inout Connection
    ) throws -> JobState? {
        try connection.execute(script: "BEGIN")
        defer { try? connection.execute(script: "ROLLBACK") }
        let isRunning = before == .running
        try connection.execute(
            script: """
                INSERT INTO jobs (
                    id, created_at, next_attempt_at, started_at, expires_at, node, revision, attempt,
                    priority, kind, state, waiting_for, tenant, session, origin, spec, lot, urgency)
                VALUES ('\(Self.job)', now(), NULL, now(), 'tomorrow',
                    \(isRunning ? "'\(Self.node)'" : "NULL"), 5, 3, 0.5, 'data', '\(before.rawValue)',
                    \(before == .waiting ? "'\(move.waitingFor)'" : "NULL"), 'acme', 'default',
                    'http://a.example:80', '{"schedule":{"waits_for_connectivity":true}}',
                    \(Self.lot), now());
                """)
        if let with = move.with { try connection.execute(script: "UPDATE jobs SET \(with)") }
        if !move.before.isEmpty { try connection.execute(script: move.before) }
        let name = move.statement.name
        try connection.execute(
            script: """
                PREPARE \(name) AS \(move.statement.sql);
                EXECUTE \(name)(\(move.arguments));
                DEALLOCATE \(name)
                """)
        let rows = try connection.execute(
            Statement("state", "SELECT state::text FROM jobs UNION ALL SELECT state::text FROM finished_jobs")
        )
        return rows.rowCount == 1 ? JobState(rawValue: rows.text(0, 0)) : nil
    }

    private func connect() throws -> Connection {
        var options = ConnectionOptions()
        options.settings = [.init("ferry.shard", "test")]
        return try Connection(url: database.url, options: options)
    }

    @Test("each statement makes legal state changes only, and each legal one has a statement")
    func moves() throws {
        var connection = try connect()
        let unfinished = JobState.allCases.filter { !$0.isTerminal }
        for input in Input.allCases {
            var made: [JobState: JobState] = [:]
            for move in Self.all where move.input == input {
                var hasMoved = false
                for before in unfinished {
                    let found = try state(after: move, from: before, &connection)
                    let after = try #require(found)
                    guard after != before else { continue }
                    hasMoved = true
                    made[before] = after
                    #expect(
                        JobStateMachine.next(before, input) == after,
                        "\(move.statement.name) (\(input)): \(before) to \(after)")
                }
                #expect(hasMoved, "\(move.statement.name) (\(input)) does nothing")
            }
            for before in unfinished {
                #expect(made[before] == JobStateMachine.next(before, input), "\(before), \(input)")
            }
        }
    }

    @Test("statements that must not change the state do not")
    func rests() throws {
        var connection = try connect()
        for move in Self.all where move.input == nil {
            for before in JobState.allCases where !before.isTerminal {
                let after = try state(after: move, from: before, &connection)
                #expect(after == before, "\(move.statement.name)")
            }
        }
    }

    @Test("the list has every statement that changes unfinished jobs")
    func complete() {
        let known = Set(Self.all.map(\.statement.name)).union(Self.others)
        let changing = Statements.all.filter {
            $0.sql.contains("UPDATE jobs ") || $0.sql.contains("DELETE FROM jobs ")
        }
        #expect(Set(changing.map(\.name)) == known)
    }
}
