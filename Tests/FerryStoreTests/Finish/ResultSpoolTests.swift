import FerryCore
import Glibc
import Postgres
import Sys
import TestSupport
import TestThreads
import Testing

@testable import FerryStore

@Suite("The result spool", .serialized, .onOwnThread)
struct ResultSpoolTests {
    private let server: TestServer
    private let directory: String
    private let id: NodeID = TestNode.identifiers.make()

    init() throws {
        server = try TestServer()
        directory = try TemporaryDirectory.make("spool")
        try Migrator.migrate(url: server.url())
    }

    private func remove() {
        server.remove()
        TemporaryDirectory.remove(directory)
    }

    private func node(works: Bool = true) throws -> TestNode {
        try TestNode(server.url(), slots: 130, id: id, works: works, spool: ResultSpool(directory: directory))
    }

    private var file: String { directory + "/uncommitted" }
    private var isKept: Bool { access(file, F_OK) == 0 }

    /// A node begins these jobs, has those results without a database, and ends.
    private func end(_ jobs: [NewJob], _ outcomes: [AttemptResult.Outcome]) throws {
        let node = try node()
        _ = try node.submit(jobs).get()
        let attempts = try node.attempts(jobs.count)
        let ordered = jobs.compactMap { job in attempts.first { $0.job == job.id } }
        server.stop()
        node.store.dispatcher.resumed(ordered[0], at: 7)
        for (attempt, outcome) in zip(ordered, outcomes) {
            node.store.dispatcher.record(result(attempt, outcome))
        }
        node.store.stop()
    }

    @Test("the next start commits each result unchanged, and begins only jobs without one")
    func results() throws {
        defer { remove() }
        let jobs = [newJob(webhook: true), newJob(retryDelay: 600), newJob(), newJob()]
        try end(jobs, [success, failure(), .released, .cancelled])
        var status = stat()
        #expect(stat(file, &status) == 0 && status.st_mode & 0o777 == 0o600)
        try server.start()
        let node = try node()
        defer { node.store.stop() }
        #expect(!isKept && directoryNames(directory).isEmpty)
        let next = try node.attempt()
        #expect(next.job == jobs[2].id && next.number == 2 && next.failedAttemptCount == 0)
        let records = try jobs.map { try node.job($0.id).get().record }
        #expect(records.map(\.state) == [.succeeded, .waiting, .running, .cancelled])
        #expect(records.map(\.attempt) == [1, 1, 2, 1])
        #expect(records[0].storedResult != nil && records[0].storedResponse != nil)
        #expect(records[1].failedAttemptCount == 1 && records[1].waitingFor == .retry)
        try node.waitForDeliveries(2)
        node.end(next, success)
        eventually("the events have their numbers") {
            (try? EventLog(server.url()).events.count { $0.record.type == .jobSucceeded }) == 2
        }
        let told = try EventLog(server.url()).events.filter { $0.record.job == jobs[0].id }
        #expect(told.map(\.record.type) == [.jobCreated, .jobStarted, .jobResumedAtOffset, .jobSucceeded])
        let metrics = node.store.metrics
        #expect(metrics.fencedResults == 0 && metrics.recordedResults == 5)
        #expect(node.runner.begun.wait(milliseconds: 0).isEmpty)
    }

    @Test("the next start commits tries of deliveries after results, and no delivery is sent twice")
    func tries() throws {
        defer { remove() }
        let first = try node()
        let jobs = [newJob(webhook: true), newJob()]
        _ = try first.submit(jobs).get()
        let attempts = try first.attempts(2)
        for attempt in attempts where attempt.job == jobs[0].id { first.end(attempt, success) }
        try first.waitForDeliveries(1)
        let found = Mailbox<ClaimedDeliveries>()
        first.store.deliveries.claim(DeliveryDemand(total: 9, other: 9), leaseSeconds: 600) { found.send($0) }
        let due = try #require(found.wait(milliseconds: 60_000).first?.due)
        #expect(due.map(\.job) == [jobs[0].id])
        server.stop()
        for attempt in attempts where attempt.job == jobs[1].id {
            first.store.dispatcher.record(result(attempt, success))
        }
        first.store.deliveries.record(
            due.map { delivery in
                DeliveryTry(
                    delivery: delivery.id, number: delivery.tryNumber, startedAt: delivery.occurredAt,
                    duration: 0.1, status: 204, error: nil, responseExcerpt: "", verdict: .accepted)
            })
        first.store.stop()
        try server.start()
        let node = try node(works: false)
        defer { node.store.stop() }
        #expect(try node.job(jobs[1].id).get().record.state == .succeeded && !isKept)
        var connection = try Connection(url: server.url())
        let stored = try connection.execute(
            Statement("stored", "SELECT state::text, (SELECT count(*) FROM delivery_tries) FROM deliveries"))
        #expect(stored.rowCount == 1 && stored.text(0, 0) == "accepted" && stored.int64(0, 1) == 1)
    }

    @Test("jobs that other nodes have taken stay as they are, also with several transactions of results")
    func taken() throws {
        defer { remove() }
        let jobs = (0..<120).map { _ in newJob() }
        try end(jobs, jobs.map { _ in success })
        try server.start()
        var connection = try Connection(url: server.url())
        try connection.execute(
            script: """
                UPDATE jobs SET attempt = attempt + 1, revision = revision + 2, node = NULL, state = 'queued'
                WHERE id = '\(jobs[0].id.uuidText)'
                """)
        let node = try node(works: false)
        defer { node.store.stop() }
        let states = try jobs.map { try node.job($0.id).get().record.state }
        #expect(states == [.queued] + Array(repeating: .succeeded, count: 119) && !isKept)
        #expect(node.store.metrics.fencedResults == 1 && node.store.metrics.recordedResults == 119)
    }

    @Test("a result that the database refuses for good blocks neither other results nor the start")
    func refused() throws {
        defer { remove() }
        let jobs = [newJob(), newJob()]
        try end(jobs, [success, success])
        try server.start()
        var connection = try Connection(url: server.url())
        try connection.execute(
            script: "ALTER TABLE finished_jobs ADD CHECK (id <> '\(jobs[0].id.uuidText)')")
        let node = try node(works: false)
        defer { node.store.stop() }
        let states = try jobs.map { try node.job($0.id).get().record.state }
        #expect(states == [.queued, .succeeded] && !isKept)
        #expect(node.store.metrics.fencedResults == 0 && node.store.metrics.recordedResults == 1)
    }

    @Test("a damaged file, or one of another version, is left out, and its jobs run again")
    func unreadable() throws {
        defer { remove() }
        let job = newJob()
        try end([job], [success])
        let bytes = try #require(readFile(file))
        try server.start()
        for damaged in [Array(bytes.dropLast()), Array("another version".utf8), [], Array(bytes.dropFirst())]
        {
            try writeFile(file, damaged)
            let node = try node(works: false)
            defer { node.store.stop() }
            #expect(try node.job(job.id).get().record.state == .queued && !isKept)
        }
    }

    @Test("if the database is back before the end, results are committed before jobs are given back")
    func backInTime() throws {
        defer { remove() }
        let node = try node()
        let job = newJob()
        _ = try node.submit(job)
        let attempt = try node.attempt()
        var other = try Connection(url: server.url())
        try other.execute(script: "BEGIN; LOCK TABLE finished_jobs IN SHARE MODE")
        node.store.dispatcher.record(result(attempt, success))
        try eventually("the commit waits") { try isBlocked("dispatcher", server.url()) }
        let stopping = Thread(name: "stopping") { node.store.stop() }
        eventually("the result is kept") { isKept }
        try other.execute(script: "COMMIT")
        stopping.join()
        #expect(!isKept)
        let states = "SELECT state::text FROM finished_jobs UNION ALL SELECT state::text FROM jobs"
        let found = try other.execute(Statement("states", states))
        #expect(found.rowCount == 1 && found.text(0, 0) == "succeeded")
    }
}
