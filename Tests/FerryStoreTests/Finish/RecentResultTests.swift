import FerryCore
import Postgres
import Sys
import TestSupport
import TestThreads
import Testing

@testable import FerryStore

@Suite("Results of the last two seconds", .onOwnThread)
struct RecentResultTests {
    private let database: TestDatabase

    init() throws { database = try TestDatabase(template: template) }

    private func finish(
        _ job: NewJob, on node: TestNode, _ outcome: AttemptResult.Outcome = success
    ) throws -> JobID {
        _ = try node.submit(job)
        node.end(try node.attempt(), outcome)
        if case .failed = outcome { node.waitUntilFinished(job.id) }
        return job.id
    }

    /// Returns what the node keeps of a job. At time 0 no entry is too old, however slow the test is.
    private func recent(_ id: JobID, on node: TestNode, tenant: String = "acme") -> JobRecord? {
        node.store.jobs.recentResults.record(of: id, tenant: tenant, at: 0)
    }

    private func shown(_ record: JobRecord) -> String {
        var writer = JSONWriter(reservingCapacity: 2_048)
        record.write(into: &writer, progress: nil, for: .full(.inverted))
        return String(decoding: writer.bytes, as: UTF8.self)
    }

    @Test("a job that this node has finished is shown as its row would be")
    func sameAsRow() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let jobs = [
            (newJob(metadata: [.init("a", "b")]), success),
            (newJob(webhook: true, sealedSecrets: Array("secret".utf8)), success),
            (newJob(kind: .data), success),
            (newJob(attemptCountMax: 1), failure(isRetryable: false)),
        ]
        for (job, outcome) in jobs {
            let id = try finish(job, on: node, outcome)
            let record = try #require(recent(id, on: node))
            #expect(shown(record) == shown(try node.job(id).get().record))
            #expect(recent(id, on: node, tenant: "other") == nil)
            let read = try wait { node.store.jobs.job(id, tenant: "acme", reply: $0) }.get()
            #expect(shown(read) == shown(record))
        }
    }

    @Test("jobs that can still change, or whose row has more than the result, are read from the database")
    func notKept() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let acknowledged = try finish(newJob(acknowledgement: AcknowledgementRules()), on: node)
        #expect(recent(acknowledged, on: node) == nil)

        let retried = newJob()
        _ = try node.submit(retried)
        node.end(try node.attempt(), failure())
        node.end(try node.attempt(), success)
        #expect(recent(retried.id, on: node) == nil)

        let edited = newJob()
        _ = try node.submit(edited)
        let attempt = try node.attempt()
        var connection = try Connection(url: database.url)
        try connection.execute(script: "UPDATE jobs SET revision = revision + 1")
        node.end(attempt, success)
        #expect(recent(edited.id, on: node) == nil)
        #expect(try node.job(edited.id).get().record.revision == attempt.revision + 2)
    }

    @Test("a deleted job is not found, on the node that finished it and after a deletion on another one")
    func deletion() throws {
        let (node, other) = (try TestNode(database.url), try TestNode(database.url, isWorker: false))
        defer { [node, other].forEach { $0.store.stop() } }
        eventually("the node hears of deletions") { node.store.jobs.hearsOfDeletions }
        for deleting in [node, other] {
            let id = try finish(newJob(), on: node)
            #expect(recent(id, on: node) != nil)
            _ = try wait { deleting.store.jobCommands.delete(id, tenant: "acme", reply: $0) }.get()
            eventually("the deletion is known") { recent(id, on: node) == nil }
        }
    }

    @Test("entries end after two seconds, and the oldest ones give way")
    func bounds() throws {
        let results = RecentResults()
        let jobs = (0...RecentResults.countMax).map { _ in finishedJob() }
        results.prepare(jobs)
        #expect(results.record(of: jobs[1].lease.job, tenant: "acme", at: 0) == nil, "not committed")
        results.forget(jobs[2].lease.job)
        results.commit(
            jobs.map {
                .init(job: $0.lease.job, revision: $0.record.revision, startedAt: nil, isAcknowledged: false)
            }, at: 0)
        let found = jobs.map { results.record(of: $0.lease.job, tenant: "acme", at: 1_999_999_999) != nil }
        #expect(!found[0], "the oldest one gave way")
        #expect(found[1] && found[3])
        #expect(!found[2], "deleted between the commit and its reply")
        #expect(results.record(of: jobs[1].lease.job, tenant: "acme", at: 2_000_000_000) == nil)
    }

    @Test("a finished job in hand stands for its row only if nothing has changed it")
    func inHand() {
        let job = finishedJob()
        let committed = { (revision: Int32, isAcknowledged: Bool) in
            RecentResults.Committed(
                job: job.lease.job, revision: revision, startedAt: Timestamp(microseconds: 7),
                isAcknowledged: isAcknowledged)
        }
        let revision = job.record.revision
        #expect(job.eventJob(committed(revision, false))?.record.startedAt == Timestamp(microseconds: 7))
        #expect(job.eventJob(committed(revision + 1, false)) == nil)
        #expect(job.eventJob(committed(revision, true)) == nil)
    }

    private func finishedJob() -> FinishedJob {
        let job = newJob()
        let record = JobRecord(
            id: job.id, tenant: "acme", state: .succeeded, waitingFor: nil, revision: 1, attempt: 1,
            failedAttemptCount: 0, node: nil, createdAt: Timestamp(microseconds: 0), startedAt: nil,
            retryOf: nil, storedSpec: job.storedSpec)
        let attempt = Attempt(
            job: job.id, number: 1, failedAttemptCount: 0, revision: 1, tenant: "acme",
            createdAt: record.createdAt, startedAt: record.createdAt, spec: job.spec,
            storedSpec: job.storedSpec, secrets: JobSecrets(), payload: nil, origin: job.origin,
            scopePath: "/a", traceparent: nil, retryOf: nil, isCancelRequested: false)
        return FinishedJob(
            Lease(job: job.id, attempt: 1, revision: 1), record, of: attempt, lastAttempt: [])
    }
}
