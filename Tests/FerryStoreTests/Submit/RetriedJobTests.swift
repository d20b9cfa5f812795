import FerryCore
import Postgres
import Sys
import TestSupport
import TestThreads
import Testing

@testable import FerryStore

@Suite("Retries of a job", .onOwnThread)
struct RetriedJobTests {
    private let database: TestDatabase

    init() throws { database = try TestDatabase(template: template) }

    private func failed(_ node: TestNode) throws -> NewJob {
        let job = newJob(attemptCountMax: 1)
        _ = try node.submit(job)
        node.end(try node.attempt(), failure(isRetryable: false))
        node.waitUntilFinished(job.id)
        return job
    }

    private func retry(of source: JobID) -> NewJob {
        let job = newJob()
        return NewJob(
            id: job.id, tenant: job.tenant, job.request, specJSON: job.spec.encode(), sealedSecrets: nil,
            traceparent: nil, retryOf: source)
    }

    private func record(_ job: JobID, _ node: TestNode) throws -> JobRecord { try node.job(job).get().record }

    private func list(_ node: TestNode, _ change: (inout JobQuery) -> Void) throws -> [JobID] {
        var query = JobQuery(tenant: "acme")
        change(&query)
        return try wait { node.store.jobs.jobs(query, reply: $0) }.get().records.map(\.id)
    }

    @Test("the first retry is written into the row of its job, and later retries and deletions leave it")
    func first() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let source = try failed(node)
        let before = try record(source.id, node)
        #expect(before.retriedBy == nil)
        #expect(node.store.jobs.recentResult(source.id, tenant: "acme") != nil)
        let (first, second) = (retry(of: source.id), retry(of: source.id))
        _ = try node.submit(first)
        #expect(node.store.jobs.recentResult(source.id, tenant: "acme") == nil, "its row has changed")
        let after = try record(source.id, node)
        #expect(after.retriedBy == first.id && after.revision == before.revision + 1)
        _ = try node.submit(second)
        for attempt in try node.attempts(2) { node.end(attempt, success) }
        #expect(try list(node) { $0.retryOf = source.id } == [second.id, first.id])
        for deleted in [first.id, second.id] {
            _ = try wait { node.store.jobCommands.delete(deleted, tenant: "acme", reply: $0) }.get()
        }
        let last = try record(source.id, node)
        #expect(last.retriedBy == first.id && last.revision == after.revision)
        // Also for operations on many jobs: the retry is over.
        let operation = try node.run(.retry, .jobs([source.id]))
        #expect(operation.counts.changed == 0 && operation.counts.reasons == [.alreadyRetried: 1])
    }

    @Test("of two retries in one transaction the older one is the first")
    func oneTransaction() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let source = try failed(node)
        let retries = [retry(of: source.id), retry(of: source.id)]
        _ = try node.submit(retries.reversed()).get()
        #expect(try record(source.id, node).retriedBy == retries[0].id)
    }

    @Test("a repeated request with an idempotency key, and a retry of a deleted job, change no row")
    func noRetry() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let (source, other) = (try failed(node), try failed(node))
        let first = retry(of: source.id)
        _ = try node.submit([first], key: key("one")).get()
        let marked = try record(source.id, node)
        // The same key: the retry of another job is not inserted.
        let replay = try node.submit([retry(of: other.id)], key: key("one")).get()
        #expect(replay.isReplay && replay.jobs.map(\.id) == [first.id])
        #expect(try record(other.id, node).retriedBy == nil)
        _ = try wait { node.store.jobCommands.delete(other.id, tenant: "acme", reply: $0) }.get()
        let orphan = retry(of: other.id)
        _ = try node.submit(orphan)
        #expect(try record(orphan.id, node).retryOf == other.id)
        #expect(try record(source.id, node).revision == marked.revision)
    }

    @Test("an operation on many jobs writes the retries, and the filter `retried` tells the jobs apart")
    func operation() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let jobs = try (0..<3).map { _ in try failed(node) }
        _ = try node.run(.retry, .jobs([jobs[1].id, jobs[0].id]))
        let retries = try list(node) { $0.states = [.running] }
        #expect(Set(try jobs.prefix(2).map { try record($0.id, node).retriedBy }) == Set(retries))
        #expect(try list(node) { $0.isRetried = true } == [jobs[1].id, jobs[0].id])
        // Open failures, and unfinished jobs.
        #expect(try list(node) { ($0.isRetried, $0.states) = (false, [.failed]) } == [jobs[2].id])
        #expect(try list(node) { $0.isRetried = false } == retries + [jobs[2].id])
    }

    @Test("another node shows the retry of a job that it has just finished")
    func otherNode() throws {
        let (node, other) = (try TestNode(database.url), try TestNode(database.url, isWorker: false))
        defer { [node, other].forEach { $0.store.stop() } }
        eventually("the node hears of changes") { node.store.jobs.hearsOfDeletions }
        let source = try failed(node)
        _ = try other.submit(retry(of: source.id))
        eventually("the retry is known") {
            node.store.jobs.recentResults.record(of: source.id, tenant: "acme", at: 0) == nil
        }
    }

    @Test("a retry that waits for another one of the same job does not replace it")
    func concurrent() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let source = try failed(node)
        let winner = JobID(high: 1, low: 1)
        var other = try Connection(url: database.url)
        try other.execute(script: "BEGIN; UPDATE finished_jobs SET retried_by = '\(winner.uuidText)'")
        let replies = Mailbox<Result<Submission.Accepted, StoreError>>()
        node.store.submissions.submit(
            Submission(jobs: [retry(of: source.id)], idempotency: nil) { replies.send($0) })
        try eventually("the submission waits") { try isBlocked("submissions", database.url) }
        try other.execute(script: "COMMIT")
        _ = try #require(replies.wait(milliseconds: 60_000).first).get()
        #expect(try record(source.id, node).retriedBy == winner)
    }
}
