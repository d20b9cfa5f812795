import FerryCore
import Postgres
import Synchronization
import Sys
import TestSupport
import TestThreads
import Testing

@testable import FerryStore

/// Jobs beyond the free slots, which a node leases as it inserts them and holds in memory.
@Suite("Jobs held since their submission", .onOwnThread)
final class SubmissionHoldingTests {
    private static let slotCount = 2
    let database: TestDatabase

    init() throws { database = try TestDatabase(template: template) }

    private func makeNode(
        slots: Int = SubmissionHoldingTests.slotCount, most: Int = 100, id: NodeID? = nil,
        hasQueuedJobs: Bool = false
    ) throws -> TestNode {
        let node = try TestNode(database.url, slots: slots, id: id ?? TestNode.identifiers.make()) {
            $0.heldSubmissionMax = most
        }
        guard !hasQueuedJobs else { return node }
        // A new node looks for queued jobs first, and holds none before.
        eventually("the node knows that nothing is queued") {
            node.store.queueState.backlog.count == 0
        }
        eventually("the node knows that it is alone") {
            !node.store.nodeState.hasPeers.load(ordering: .relaxed)
        }
        return node
    }

    private static let asHead: @Sendable (JobRequest) throws(InvalidFields) -> JobRequest = { draft in
        var draft = draft
        draft.spec.request.method = "HEAD"
        return draft
    }

    private func heldCount(_ node: TestNode) -> Int { node.store.queueState.held.count }

    private func count(_ condition: String) throws -> Int64 {
        var connection = try Connection(url: database.url)
        let sql = "SELECT count(*) FROM jobs WHERE \(condition)"
        return try connection.execute(Statement("count", sql)).int64(0, 0)
    }

    private func events(of job: JobID, _ node: TestNode) throws -> [EventType] {
        var connection = try Connection(url: database.url)
        let rows = try connection.execute(
            Statement("log", "SELECT packed FROM events UNION ALL SELECT packed FROM event_inbox"))
        let records = (0..<rows.rowCount).flatMap { EventRecord.unpack(rows.bytes($0, 0)) }
            .compactMap(\.record)
        return records.filter { $0.job == job }.sorted { $0.occurredAt < $1.occurredAt }.map(\.type)
    }

    private func endAll(_ jobs: [JobID], _ node: TestNode) throws {
        var left = Set(jobs)
        let deadline = Sys.monotonicNanoseconds() + 60_000_000_000
        while !left.isEmpty, Sys.monotonicNanoseconds() < deadline {
            for attempt in node.runner.begun.wait(milliseconds: 200) {
                node.store.dispatcher.record(result(attempt, success))
            }
            left.subtract(node.observer.finished.take())
        }
        #expect(left.isEmpty)
    }

    @Test("they are shown as queued, begin in order, run once, and end with all their events")
    func order() throws {
        let node = try makeNode()
        defer { node.store.stop() }
        let jobs = (0..<20).map { _ in newJob() }
        let accepted = try node.submit(jobs).get().jobs
        #expect(
            accepted.map(\.state) == Array(repeating: .running, count: 2)
                + Array(repeating: .queued, count: 18))
        #expect(heldCount(node) == 18)
        let shown = try node.job(jobs[5].id).get().record
        #expect(shown.state == .queued && shown.node == nil && shown.attempt == 0 && shown.startedAt == nil)
        let status = try node.status()
        #expect(status.running == 2 && status.queued == 18)
        var order: [JobID] = []
        var left = Set(jobs.map(\.id))
        while !left.isEmpty {
            let begun = node.runner.begun.wait(milliseconds: 60_000)
            try #require(!begun.isEmpty)
            order += begun.map(\.job)
            for attempt in begun { node.store.dispatcher.record(result(attempt, success)) }
            left.subtract(begun.map(\.job))
        }
        #expect(order == jobs.map(\.id))
        eventually("all have ended") { (try? count("true")) == 0 }
        let ended = try node.job(jobs[9].id).get().record
        #expect(ended.state == .succeeded && ended.attempt == 1 && ended.failedAttemptCount == 0)
        #expect(ended.startedAt != nil)
        #expect(try events(of: jobs[9].id, node) == [.jobCreated, .jobStarted, .jobSucceeded])
        #expect(node.slots.leaseCount == 0 && node.slots.busyCount == 0)
    }

    @Test("a begin is recorded soon, with its event")
    func begins() throws {
        let node = try makeNode(slots: 1)
        defer { node.store.stop() }
        let jobs = [newJob(), newJob()]
        _ = try node.submit(jobs).get()
        node.end(try node.attempt(), success)
        let second = try node.attempt()
        #expect(second.job == jobs[1].id)
        eventually("the row says that it runs") { (try? node.job(second.job).get().record.state) == .running }
        let record = try node.job(second.job).get().record
        #expect(record.node == node.id && record.startedAt == second.startedAt && record.attempt == 1)
        node.end(second, success)
        #expect(try events(of: second.job, node) == [.jobCreated, .jobStarted, .jobSucceeded])
    }

    @Test("a retry after a short attempt has the event that the attempt began")
    func retry() throws {
        let node = try makeNode(slots: 1)
        defer { node.store.stop() }
        let jobs = [newJob(), newJob(attemptCountMax: 3, retryDelay: 60)]
        _ = try node.submit(jobs).get()
        node.end(try node.attempt(), success)
        node.store.dispatcher.record(result(try node.attempt(), failure()))
        eventually("it waits") { (try? node.job(jobs[1].id).get().record.state) == .waiting }
        #expect(try events(of: jobs[1].id, node) == [.jobCreated, .jobStarted, .jobAttemptFailed])
        #expect(try node.job(jobs[1].id).get().record.startedAt != nil)
    }

    @Test("a job of another session, or a more urgent one, makes them go back to the queue")
    func others() throws {
        for other in [newJob(session: "other"), newJob(priority: 1)] {
            let node = try makeNode(most: 10)
            let jobs = (0..<12).map { _ in newJob(priority: 0.2) }
            _ = try node.submit(jobs).get()
            #expect(heldCount(node) == 10)
            _ = try node.submit([other]).get()
            eventually("none is held") { heldCount(node) == 0 }
            eventually("they are queued") { (try? count("state = 'queued' AND node IS NULL")) == 11 }
            let running = try node.attempts(2)
            for attempt in running { node.store.dispatcher.record(result(attempt, success)) }
            // With the share of its session, or its priority, it is one of the next two.
            #expect(try node.attempts(2).map(\.job).contains(other.id))
            node.store.stop()
            var connection = try Connection(url: database.url)
            try connection.execute(script: "DELETE FROM jobs; DELETE FROM job_counts; DELETE FROM nodes")
        }
    }

    @Test("jobs beyond the bound, and requests that must not be repeated, are queued")
    func bounds() throws {
        let node = try makeNode(most: 3)
        defer { node.store.stop() }
        _ = try node.submit((0..<10).map { _ in newJob() }).get()
        #expect(heldCount(node) == 3)
        #expect(try count("state = 'queued' AND node IS NULL") == 5)
    }

    @Test("they go back when another node appears, since it may have free slots")
    func peers() throws {
        let node = try makeNode()
        defer { node.store.stop() }
        let jobs = (0..<8).map { _ in newJob() }
        _ = try node.submit(jobs).get()
        #expect(heldCount(node) == 6)
        node.store.nodeState.hasPeers.store(true, ordering: .relaxed)
        eventually("they are queued") { (try? count("state = 'queued' AND node IS NULL")) == 6 }
        try endAll(jobs.map(\.id), node)
    }

    @Test("they begin when a commit releases leases, although no transfer ends then")
    func leases() throws {
        let node = try makeNode()
        defer { node.store.stop() }
        let jobs = (0..<4).map { _ in newJob() }
        _ = try node.submit(jobs).get()
        let begun = try node.attempts(2)
        // As after many results that wait for the database.
        let most = node.slots.reserveLeases(upTo: .max)
        for attempt in begun { node.store.dispatcher.record(result(attempt, success)) }
        let stolen = most + node.slots.reserveLeases(upTo: .max)
        eventually("both have ended") { (try? count("true")) == 2 }
        node.slots.settle(stolen)
        let last = try node.attempts(2)
        #expect(Set(last.map(\.job)) == Set(jobs[2...].map(\.id)))
        for attempt in last { node.store.dispatcher.record(result(attempt, success)) }
        eventually("all have ended") { (try? count("true")) == 0 }
    }

    @Test("they are suspended, resumed, cancelled and edited like other queued jobs")
    func commands() throws {
        let node = try makeNode()
        defer { node.store.stop() }
        let jobs = (0..<6).map { _ in newJob() }
        _ = try node.submit(jobs).get()
        let store = node.store
        _ = try wait { store.jobCommands.suspend(jobs[2].id, tenant: "acme", reply: $0) }.get()
        eventually("it is suspended") { (try? node.job(jobs[2].id).get().record.state) == .suspended }
        _ = try wait { store.jobCommands.cancel(jobs[3].id, tenant: "acme", reply: $0) }.get()
        node.waitUntilFinished(jobs[3].id)
        #expect(try node.job(jobs[3].id).get().record.startedAt == nil)
        let edited = try wait { store.jobCommands.edit(jobs[4].id, tenant: "acme", Self.asHead, reply: $0) }
            .get().get()
        #expect(edited.state == .queued && edited.spec?.request.method == "HEAD")
        _ = try wait { store.jobCommands.resume(jobs[2].id, tenant: "acme", reply: $0) }.get()
        try endAll([jobs[0], jobs[1], jobs[2], jobs[4], jobs[5]].map(\.id), node)
        #expect(try count("true") == 0)
        #expect(node.slots.leaseCount == 0 && heldCount(node) == 0)
    }

    @Test("an edit through another node waits until the holder has returned the job")
    func editElsewhere() throws {
        let node = try makeNode()
        defer { node.store.stop() }
        let jobs = (0..<4).map { _ in newJob() }
        _ = try node.submit(jobs).get()
        let other = try TestNode(database.url, isWorker: false)
        defer { other.store.stop() }
        let store = other.store
        let edited = try insist { store.jobCommands.edit(jobs[3].id, tenant: "acme", Self.asHead, reply: $0) }
            .get()
        #expect(edited.spec?.request.method == "HEAD")
        try endAll(jobs.map(\.id), node)
    }

    @Test("a node that drains returns them; one that is killed loses them without an attempt")
    func ends() throws {
        let first = try makeNode()
        let jobs = (0..<8).map { _ in newJob() }
        _ = try first.submit(jobs).get()
        first.store.drain()
        eventually("they are queued") { (try? count("state = 'queued' AND node IS NULL")) == 6 }
        #expect(heldCount(first) == 0)
        first.store.stop()
        let second = try makeNode(slots: 8, hasQueuedJobs: true)
        try endAll(jobs.map(\.id), second)
        second.store.stop()

        // As a killed process leaves its rows.
        let dead: NodeID = TestNode.identifiers.make()
        let node = try makeNode(slots: 1)
        let lost = (0..<3).map { _ in newJob() }
        _ = try node.submit(lost).get()
        var connection = try Connection(url: database.url)
        try connection.execute(script: "UPDATE jobs SET node = '\(dead.uuidText)' WHERE state = 'queued'")
        node.store.stop()
        let next = try makeNode(slots: 3, id: dead, hasQueuedJobs: true)
        defer { next.store.stop() }
        let begun = try next.attempts(3)
        #expect(
            begun.filter { lost.dropFirst().map(\.id).contains($0.job) }.allSatisfy {
                $0.failedAttemptCount == 0
            })
        for attempt in begun { next.store.dispatcher.record(result(attempt, success)) }
        eventually("all have ended") { (try? count("true")) == 0 }
        #expect(try events(of: lost[2].id, next) == [.jobCreated, .jobStarted, .jobSucceeded])
    }
}
