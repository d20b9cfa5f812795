import FerryCore
import Postgres
import TestSupport
import TestThreads
import Testing

@testable import FerryStore

/// The statements of the store do what `LeaseModel` says: every step from every state of one job and two
/// nodes is taken once on rows.
@Suite("Leases in rows", .onOwnThread)
struct LeaseReplayTests {
    private static let job = "00000000-0000-0000-0000-000000000001"
    private static let nodes = [
        "00000000-0000-0000-0000-000000000002", "00000000-0000-0000-0000-000000000003",
    ]
    /// The last heartbeat of each node.
    private static let heartbeat = "2026-01-01 00:00:00+00"

    private struct Row: Equatable {
        var state: String?
        var node: String?
        var attempt: Int
        var cancels: Bool
        var suspends: Bool
        /// Events about the end of the job.
        var endCount: Int
        /// Counted jobs that wait, are queued, run and are suspended.
        var counts: [Int]
    }

    private let database: TestDatabase

    init() throws { database = try TestDatabase(template: template) }

    @Test("each step of the model changes the row as the model says")
    func replay() throws {
        let search = LeaseSearch(LeaseModel(jobCount: 1, faultCount: 1, requestCount: 1))
        #expect(search.failure == nil)
        var options = ConnectionOptions()
        options.pinsPlans = true
        options.settings = [.init("ferry.shard", "test")]
        options.statementTimeout = nil
        options.idleInTransactionTimeout = nil
        var connection = try Connection(url: database.url, options: options)
        try connection.execute(script: Self.script)
        var takenCount = 0
        try visit(0, search, search.tree, &takenCount, &connection)
        try connection.execute(script: "ROLLBACK")
        #expect(takenCount == search.edgeCount)
    }

    private static var script: String {
        let values = nodes.map { "('\($0)', now(), '\(heartbeat)', 0, false, true, 'node', '1')" }
        let statements = [Statements.submitJobs, Statements.claimJobs, Statements.finishJobs]
        return """
            INSERT INTO claim_queues (id, tenant, session) VALUES (7, 'acme', 'default');
            INSERT INTO nodes (id, started_at, heartbeat_at, running, draining, is_worker, name, version)
            VALUES \(values.joined(separator: ", "));
            \(statements.map { "PREPARE \($0.name) AS \($0.sql)" }.joined(separator: ";\n"));
            BEGIN
            """
    }

    /// Takes each step from a state, and goes on from the states that the search has found by it.
    private func visit(
        _ number: Int, _ search: LeaseSearch, _ tree: [[(step: LeaseModel.Step, state: Int)]],
        _ takenCount: inout Int, _ connection: inout Connection
    ) throws {
        let state = search.states[number]
        for step in state.steps {
            try connection.execute(script: "SAVEPOINT s")
            var after = state
            _ = after.take(step)
            try take(step, state, &connection)
            let expected = expected(after.jobs[0])
            let found = try row(&connection)
            try #require(
                found == expected,
                "\((search.steps(to: number) + [step]).map { "\($0)" }.joined(separator: "; "))")
            takenCount += 1
            if let next = tree[number].first(where: { $0.step == step }) {
                try visit(next.state, search, tree, &takenCount, &connection)
            }
            try connection.execute(script: "ROLLBACK TO s; RELEASE s")
        }
    }

    private func expected(_ job: LeaseModel.Job) -> Row {
        let isUnfinished = job.state.map { !$0.isTerminal } ?? false
        return Row(
            state: job.state?.rawValue, node: job.node.map { Self.nodes[$0] }, attempt: job.attempt,
            cancels: isUnfinished && job.cancels, suspends: job.suspends, endCount: job.endCount,
            counts: [JobState.waiting, .queued, .running, .suspended].map { $0 == job.state ? 1 : 0 })
    }

    private func row(_ connection: inout Connection) throws -> Row {
        let rows = try connection.execute(
            Statement(
                "row_of_model",
                """
                SELECT coalesce(j.state, f.state)::text, j.node::text, coalesce(j.attempt, f.attempt, 0),
                    coalesce(j.cancel_requested, false), coalesce(j.suspend_requested, false),
                    (SELECT count(*) FROM event_inbox WHERE get_byte(packed, 0) IN (\(Self.ends))), c.waiting,
                    c.queued, c.running, c.suspended
                FROM (
                    SELECT coalesce(sum(waiting), 0)::bigint AS waiting,
                        coalesce(sum(queued), 0)::bigint AS queued,
                        coalesce(sum(running), 0)::bigint AS running,
                        coalesce(sum(suspended), 0)::bigint AS suspended
                    FROM job_counts) c
                LEFT JOIN jobs j ON true LEFT JOIN finished_jobs f ON true
                """))
        try #require(rows.rowCount == 1)
        return Row(
            state: rows.textOrNil(0, 0), node: rows.textOrNil(0, 1), attempt: Int(rows.int32(0, 2)),
            cancels: rows.bool(0, 3), suspends: rows.bool(0, 4), endCount: Int(rows.int64(0, 5)),
            counts: (6..<10).map { Int(rows.int64(0, $0)) })
    }

    private static let ends = [EventType.jobSucceeded, .jobFailed, .jobCancelled].map { "\($0.code)" }
        .joined(separator: ", ")

    // MARK: Steps

    private func take(
        _ step: LeaseModel.Step, _ state: LeaseModel, _ connection: inout Connection
    ) throws {
        let job = state.jobs[0]
        switch step {
        case .submit: try submit(lease: 0, node: 0, &connection)
        case .submitLeased(_, let node, _): try submit(lease: 1, node: node, &connection)
        case .submitHeld(_, let node, _): try submit(lease: 2, node: node, &connection)
        case .claim(_, let node, _):
            try connection.execute(
                script: """
                    EXECUTE claim_jobs('{7}', '{1}', '\(Self.nodes[node])', now(), false, false, false,
                        '{-infinity}', 15, '{f}', '{NULL}', 10)
                    """)
        case .recordBegin(_, let node): try change(.begin, job[node].attempt, &connection)
        case .commit(_, let node, _): try commit(job[node], &connection)
        case .reconcile(_, let node):
            let held = try connection.execute(
                Statements.heldJobs, .identifier(try #require(NodeID(uuidText: Self.nodes[node]))))
            try #require(held.rowCount == 1)
            try change(.giveBack, Int(held.int32(0, 1)), &connection)
        case .reclaim:
            var parameters = Parameters()
            let owner = try #require(job.node)
            let dead = [try #require(NodeID(uuidText: Self.nodes[owner]))]
            parameters.appendArray(.uuid, dead) { $0.append($1) }
            let heartbeat = try connection.execute(
                Statement("heartbeat_of_model", "SELECT heartbeat_at FROM nodes LIMIT 1")
            ).instant(0, 0)
            parameters.appendArray(.timestamp, [heartbeat]) { $0.append($1) }
            parameters.append(int32: 10)
            parameters.append(bool: false)
            _ = try JobChange.loseJobs(
                Statements.lockJobsOfDeadNodes, parameters, at: heartbeat, &connection)
        case .restart(let node):
            let own = Parameters.identifier(try #require(NodeID(uuidText: Self.nodes[node])))
            _ = try JobChange.loseJobs(
                Statements.lockJobsOfNode, own, at: Timestamp(microseconds: 0), &connection)
        case .becomeDue: try change(.becomeDue, nil, &connection)
        case .resume: try change(.resume, nil, &connection)
        case .suspend: try change(job.node == nil ? .suspend : .requestSuspension, nil, &connection)
        case .cancel where job.node == nil:
            let revision = try connection.execute(Statement("revision", "SELECT revision FROM jobs"))
            try finish(.cancelled, job.attempt, revision: revision.int32(0, 0), &connection)
        case .cancel: try change(.requestCancellation, nil, &connection)
        case .begin, .end, .lapse, .beat, .trust, .crash: break
        }
    }

    private func submit(lease: Int, node: Int, _ connection: inout Connection) throws {
        try connection.execute(
            script: """
                EXECUTE submit_jobs('{\(Self.job)}', '{acme}', '{default}', '{data}', '{\(lease)}', '{0.5}',
                    '{NULL}', '{tomorrow}', '{http://a.example:80}', '{NULL}', '{NULL}', '{"{}"}', '{NULL}',
                    '{NULL}', '{NULL}', now(), '\(Self.nodes[node])', '{NULL}', '{NULL}', '{7}',
                    '{now}', '{}', '{}', '{}', 0, '{false}', '{""}', '{true}', '{true}', NULL,
                    NULL, NULL, NULL, NULL, 0, NULL)
                """)
    }

    private func commit(_ memory: LeaseModel.Memory, _ connection: inout Connection) throws {
        guard case .ended(let outcome) = memory.stage else { return }
        if memory.isUnrecorded { try change(.begin, memory.attempt, &connection) }
        switch outcome {
        case .succeeded: try finish(.succeeded, memory.attempt, revision: 0, &connection)
        case .cancelled: try finish(.cancelled, memory.attempt, revision: 0, &connection)
        case .retry: try change(.retry, memory.attempt, &connection)
        case .returned: try change(.giveBack, memory.attempt, &connection)
        }
    }

    private func change(_ input: JobInput, _ attempt: Int?, _ connection: inout Connection) throws {
        var change = JobChange(input, try #require(JobID(uuidText: Self.job)))
        change.attempt = attempt.map { Int32($0) }
        change.pause = input == .retry ? 1 : nil
        _ = try ChangedJob.commit([change], &connection)
    }

    /// `revision`: of the job, if no node has it.
    private func finish(
        _ state: JobState, _ attempt: Int, revision: Int32, _ connection: inout Connection
    ) throws {
        let event = state == .succeeded ? EventType.jobSucceeded : .jobCancelled
        try connection.execute(
            script: """
                EXECUTE finish_jobs('{\(Self.job)}', '{\(attempt)}', '{\(revision)}', '{\(state.rawValue)}',
                    '{0}', '{NULL}', '{NULL}', '{NULL}', '{NULL}', '{now}', '{NULL}', ARRAY[event_pack(
                        \(event.code), NULL, '\(Self.job)', now(), \(attempt), 1, '\(state.rawValue)', NULL,
                        NULL)], '{NULL}', '{NULL}', '{}', '{}', '{}', '{}', '{NULL}', '{NULL}', NULL, NULL)
                """)
    }
}
