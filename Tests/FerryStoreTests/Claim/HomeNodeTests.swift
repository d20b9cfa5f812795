import FerryCore
import Postgres
import Sys
import TestSupport
import TestThreads
import Testing

@testable import FerryStore

@Suite("Jobs that only one node can run", .onOwnThread)
struct HomeNodeTests {
    let database: TestDatabase

    init() throws { database = try TestDatabase(template: template) }

    /// Gives the attempt back: it is for that node.
    private func giveBack(_ attempt: Attempt, on node: TestNode, for home: TestNode) {
        node.store.dispatcher.record(
            AttemptResult(
                attempt: attempt, outcome: .released, response: nil, bytesReceived: 0, bytesSent: 0,
                home: home.id))
    }

    @Test(
        "jobs begin on the node that alone can run them, even if their origin is limited",
        arguments: [false, true])
    func placed(isLimited: Bool) throws {
        let first = try TestNode(database.url)
        defer { first.store.stop() }
        if isLimited {
            try first.changeHost(
                "https://example.org:443", #"{"maximum_connections":3}"#, known: [first])
        }
        let job = newJob(kind: .upload)
        _ = try first.submit(job)
        let attempt = try first.attempt()
        #expect(attempt.home == nil)
        let second = try TestNode(database.url)
        defer { second.store.stop() }
        giveBack(attempt, on: first, for: second)
        let next = try second.attempt()
        #expect(next.job == job.id && next.home == second.id && next.failedAttemptCount == 0)
        #expect(first.runner.begun.count == 0)
        second.end(next, success)
        #expect(try second.job(job.id).get().record.state == .succeeded)
    }

    @Test("jobs for a busy node wait for it, delay no others, and run elsewhere when the node is gone")
    func busy() throws {
        let first = try TestNode(database.url)
        defer { first.store.stop() }
        let job = newJob(kind: .upload)
        _ = try first.submit(job)
        let attempt = try first.attempt()
        let second = try TestNode(database.url, slots: 1)
        _ = try second.submit(newJob(kind: .upload, host: "busy.example"))
        let other = try second.attempt()
        giveBack(attempt, on: first, for: second)
        // What comes behind it in the same queue.
        let later = (0..<5).map { _ in newJob(kind: .upload) }
        _ = try first.submit(later).get()
        for _ in later {
            let next = try first.attempt()
            #expect(next.job != job.id)
            first.end(next, success)
        }
        let waiting = try first.job(job.id).get().record
        #expect(waiting.state == .queued && waiting.attempt == 1)
        second.store.dispatcher.record(result(other, .released))
        second.store.stop()
        // The node that has gone is named: there is nothing to give back for.
        let last = try first.attempts(2).first { $0.job == job.id }
        #expect(last?.home == second.id && last?.number == 2)
    }

    /// Buffers that a statement touches, in a transaction that comes to nothing.
    private func buffers(
        _ statement: Statement, _ parameters: Parameters, _ connection: inout Connection
    ) throws -> Int {
        try connection.execute(script: "BEGIN")
        let explained = Statement(
            "buffers_of_\(statement.name)", "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF) " + statement.sql,
            parameters: statement.parameterCount)
        let rows = try connection.execute(explained, parameters)
        var count = 0
        for row in 0..<rows.rowCount {
            let line = rows.text(row, 0)
            if line.contains("Planning") { break }
            guard count == 0, let shared = line.split(separator: "Buffers: shared").last,
                shared.count < line.count
            else { continue }
            // Of the root, which has those of all others.
            for part in shared.split(separator: " ") {
                if let number = part.split(separator: "=").last.flatMap({ Int($0) }) { count += number }
            }
        }
        try connection.execute(script: "ROLLBACK")
        return count
    }

    @Test("claims of other nodes read none of the jobs that wait for a busy node")
    func neverMet() throws {
        let first = try TestNode(database.url)
        defer { first.store.stop() }
        let job = newJob(kind: .upload)
        _ = try first.submit(job)
        let attempt = try first.attempt()
        let second = try TestNode(database.url, slots: 1)
        defer { second.store.stop() }
        _ = try second.submit(newJob(session: "busy"))
        _ = try second.attempt()
        giveBack(attempt, on: first, for: second)
        try eventually("it is given back") { try first.job(job.id).get().record.state == .queued }
        var options = ConnectionOptions()
        options.settings = [.init("ferry.shard", "test")]
        var connection = try Connection(url: database.url, options: options)
        try connection.execute(
            script: """
                INSERT INTO jobs (id, tenant, session, kind, state, priority, expires_at, origin, spec,
                    created_at, queue, urgency, home)
                SELECT gen_random_uuid(), tenant, session, kind, state, priority, expires_at, origin, spec,
                    created_at, queue, urgency, home
                FROM jobs, generate_series(1, 20000) WHERE home IS NOT NULL;
                INSERT INTO job_counts (shard, queued) VALUES ('homes', 20000);
                """)
        try connection.execute(script: "VACUUM ANALYZE jobs")
        // What comes behind them in the same session begins at once, and nothing of them does.
        let later = (0..<5).map { _ in newJob(kind: .upload) }
        _ = try first.submit(later).get()
        for _ in later {
            let next = try first.attempt()
            #expect(later.contains { $0.id == next.job })
            first.end(next, success)
        }
        // What a node asks for that knows only what a look tells it, and one that has missed the return.
        var look = Parameters.int64(.min)
        look.append(int32: 1_000)
        look.append(first.id)
        look.append(float64: 15)
        let found = try connection.execute(Statements.scanClaimQueues, look)
        let elsewhere = (0..<found.rowCount).filter { found.bool($0, 9) }
        try #require(elsewhere.count == 1)
        let queue = found.int64(elsewhere[0], 0)
        var claim = Parameters()
        claim.appendArray(.int64, [queue]) { $0.append(int64: $1) }
        claim.appendArray(.int32, [4]) { $0.append(int32: Int32($1)) }
        claim.append(first.id)
        claim.append(Timestamp(microseconds: Sys.wallMicroseconds()))
        claim.append(bool: false)
        claim.append(bool: false)
        claim.append(bool: false)
        claim.appendArray(.timestamp, [queue]) { parameters, _ in parameters.append(timestamp: .min) }
        claim.append(float64: 15)
        claim.appendArray(.bool, [false]) { $0.append(bool: $1) }
        claim.appendArray(.uuid, [second.id]) { $0.append($1) }
        claim.append(int32: 5_000)
        let touched = try buffers(Statements.claimJobs, claim, &connection)
        #expect(touched < 60, "\(touched) buffers")
        #expect(try buffers(Statements.scanClaimQueues, look, &connection) < 60)
    }

    @Test("a session's limit counts jobs that only one node can run together with its other jobs")
    func sessionLimit() throws {
        let nodes = try (0..<2).map { _ in try TestNode(database.url, slots: 4) }
        defer { nodes.forEach { $0.store.stop() } }
        var configuration = SessionConfiguration()
        configuration.connectionsPerHostMax = 2
        let draft = SessionDraft(configuration: configuration, secrets: JobSecrets(), sealedSecrets: nil)
        let key = SessionKey(tenant: "acme", name: "narrow")
        _ = try wait { nodes[0].store.sessions.putSession(key, draft, if: .none, reply: $0) }.get()
        eventually("both know it") {
            nodes.allSatisfy {
                $0.store.context.sessions.current.share(tenant: "acme", session: "narrow")
                    .connectionLimit == 2
            }
        }
        // One runs anywhere, and one at home.
        let homeless = newJob(session: "narrow", kind: .upload)
        let placed = newJob(session: "narrow", kind: .upload)
        _ = try nodes[0].submit([homeless, placed]).get()
        var running: [(node: TestNode, attempt: Attempt)] = []
        func begun() -> [(node: TestNode, attempt: Attempt)] {
            nodes.flatMap { node in node.runner.begun.take().map { (node, $0) } }
        }
        eventually("both run") {
            running += begun()
            return running.count == 2
        }
        let index = try #require(running.firstIndex { $0.attempt.job == placed.id })
        let (node, attempt) = running.remove(at: index)
        let home = node === nodes[0] ? nodes[1] : nodes[0]
        giveBack(attempt, on: node, for: home)
        eventually("it runs at home") {
            running += begun()
            return running.contains { $0.attempt.job == placed.id && $0.node === home }
        }
        #expect(running.count == 2)
        let more = (0..<6).map { _ in newJob(session: "narrow", kind: .upload) }
        for (index, job) in more.enumerated() { _ = try nodes[index % 2].submit(job) }
        var ended = 0
        let counted = Statement(
            "counted", "SELECT count(*) FROM jobs WHERE state = 'running' AND session = 'narrow'")
        var connection = try Connection(url: database.url)
        eventually("all end") {
            running += begun()
            #expect(running.count <= 2)
            if let next = running.popLast() {
                next.node.store.dispatcher.record(result(next.attempt, success))
                ended += 1
            }
            return ended == 8
        }
        try eventually("all are gone") { try connection.execute(counted).int64(0, 0) == 0 }
    }
}
