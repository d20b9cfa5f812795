import FerryCore
import FerryStore
import Postgres
import TestSupport
import TestThreads
import Testing

@Suite("Attempts", .onOwnThread)
struct AttemptTests {
    let database: TestDatabase

    init() throws { database = try TestDatabase(template: template) }

    private func attempts(_ node: TestNode, _ id: JobID, tenant: String = "acme") throws -> JobAttempts {
        try wait { node.store.jobs.attempts(of: id, tenant: tenant, reply: $0) }.get()
    }

    private func trace(_ attempt: Attempt, transactionCount: Int = 1) -> AttemptTrace {
        var log = TransactionLog()
        for index in 0..<transactionCount {
            log.append(TransactionMetrics(fetchStart: Int64(attempt.number) * 100 + Int64(index)))
        }
        return AttemptTrace(
            startedAt: Timestamp(microseconds: 1_000_000 * Int64(attempt.number)),
            finishedAt: Timestamp(microseconds: 1_000_000 * Int64(attempt.number) + 5), transactions: log)
    }

    private func end(_ node: TestNode, _ attempt: Attempt, _ outcome: AttemptResult.Outcome) {
        node.store.dispatcher.record(
            AttemptResult(
                attempt: attempt, outcome: outcome, response: nil, bytesReceived: 0, bytesSent: 0,
                trace: trace(attempt, transactionCount: 2)))
    }

    @Test("failed, released and finished attempts are kept in order, with their traces")
    func kept() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let accepted = try node.submit(newJob(attemptCountMax: 5))
        for outcome in [failure(), .released, failure(), success] { end(node, try node.attempt(), outcome) }
        node.waitUntilFinished(accepted.id)
        let kept = try attempts(node, accepted.id)
        #expect(kept.attempts.map(\.number) == [1, 2, 3, 4] && kept.omittedCount == 0)
        #expect(kept.attempts.map(\.outcome) == [.failed, .released, .failed, .succeeded])
        #expect(kept.attempts.allSatisfy { $0.node == node.id })
        #expect(kept.attempts.map { $0.error != nil } == [true, false, true, false])
        for attempt in kept.attempts {
            #expect(attempt.transactions.map(\.fetchStart).first == Int64(attempt.number) * 100)
            #expect(attempt.startedAt == Timestamp(microseconds: 1_000_000 * Int64(attempt.number)))
        }
        let foreign = wait { node.store.jobs.attempts(of: accepted.id, tenant: "other", reply: $0) }
        #expect(throws: StoreError.notFound) { try foreign.get() }
    }

    @Test("a job that runs, waits or never ran shows the attempts that it has")
    func unfinished() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let later = try node.submit(newJob(beginAt: Timestamp(microseconds: 4_000_000_000_000_000)))
        #expect(try attempts(node, later.id).attempts.isEmpty)
        _ = wait { node.store.jobCommands.cancel(later.id, tenant: "acme", reply: $0) }
        #expect(try attempts(node, later.id).attempts.isEmpty, "no attempt ended it")
        let accepted = try node.submit(newJob(retryDelay: 600))
        let attempt = try node.attempt()
        let running = try #require(try attempts(node, accepted.id).attempts.first)
        #expect(running.outcome == nil && running.finishedAt == nil && running.node == node.id)
        end(node, attempt, failure())
        try eventually("the job waits") { try node.job(accepted.id).get().record.state == .waiting }
        #expect(try attempts(node, accepted.id).attempts.map(\.outcome) == [.failed])
    }

    @Test("attempts of a killed node are kept as lost, by its next start or by another node")
    func lost() throws {
        // Its one slot is taken: it claims nothing more.
        let first = try TestNode(database.url, slots: 1)
        let accepted = try first.submit(newJob())
        _ = try first.attempt()
        // A process that was killed says nothing more: its store is left as it is while the same node starts.
        let second = try TestNode(database.url, id: first.id)
        let again = try second.attempt()
        #expect(again.number == 2)
        let kept = try attempts(second, accepted.id).attempts
        #expect(kept.map(\.outcome) == [.lost, nil] && kept[0].node == first.id)
        #expect(kept[0].startedAt != nil && kept[0].finishedAt != nil)
        let error = try #require(kept[0].error).read()
        #expect(error.code.choice == .nodeLost)
        // Its end gives back what the node runs, and that begins again.
        first.store.stop()
        let count = Int(try second.attempt().number)
        // A node that is gone for good: nobody sends its heartbeats.
        var connection = try Connection(url: database.url)
        try connection.execute(script: "UPDATE jobs SET node = gen_random_uuid() WHERE state = 'running'")
        // Who starts looks for such jobs at once, others every minute.
        let third = try TestNode(database.url, isWorker: false)
        defer { third.store.stop() }
        try eventually("the other node's job is reclaimed") {
            let lost = try attempts(second, accepted.id).attempts.prefix(count)
            return lost.count == count && lost.allSatisfy { $0.outcome == .lost }
        }
        second.store.stop()
    }

    @Test("the latest 50 attempts are kept, with the number of earlier ones")
    func bounded() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let accepted = try node.submit(newJob())
        for _ in 0..<60 { end(node, try node.attempt(), .released) }
        let last = try node.attempt()
        let running = try attempts(node, accepted.id)
        #expect(running.attempts.map(\.number) == Array(12...61) && running.omittedCount == 11)
        end(node, last, success)
        node.waitUntilFinished(accepted.id)
        let kept = try attempts(node, accepted.id)
        #expect(kept.attempts.count == Limits.attemptCountMax && kept.omittedCount == 11)
    }
}
