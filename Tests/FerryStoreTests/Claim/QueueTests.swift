import FerryCore
import FerryScheduler
import Postgres
import Synchronization
import Sys
import TestSupport
import TestThreads
import Testing

@testable import FerryStore

@Suite("The queue", .onOwnThread)
struct QueueTests {
    let database: TestDatabase

    init() throws { database = try TestDatabase(template: template) }

    private static let limited = "https://limited.example.org:443"

    /// Ends every attempt at once with success, and keeps the order in which they began.
    private func serve(_ node: TestNode, _ order: Mailbox<Attempt>) {
        node.runner.react { [dispatcher = node.store.dispatcher] attempt in
            order.send(attempt)
            dispatcher.record(result(attempt, success))
        }
    }

    private func began(_ order: Mailbox<Attempt>, _ count: Int) throws -> [Attempt] {
        var all: [Attempt] = []
        let deadline = Sys.monotonicNanoseconds() + 60_000_000_000
        while all.count < count && Sys.monotonicNanoseconds() < deadline {
            all.append(contentsOf: order.wait(milliseconds: 1000))
        }
        try #require(all.count == count)
        return all
    }

    /// Fills the only slot of a node, submits the jobs so that they queue, and returns the order in which
    /// they begin once the slot is free.
    private func order(of jobs: [NewJob]) throws -> [Attempt] {
        // None is given back because it was held for too long.
        let node = try TestNode(database.url, slots: 1) { $0.heldSeconds = 300 }
        defer { node.store.stop() }
        _ = try node.submit(newJob(session: "first"))
        let first = try node.attempt()
        _ = try node.submit(jobs).get()
        let order = Mailbox<Attempt>()
        serve(node, order)
        node.store.dispatcher.record(result(first, success))
        return try began(order, jobs.count)
    }

    @Test("a session with many queued jobs takes turns with one that has few, and tenants do so too")
    func turns() throws {
        let jobs =
            (0..<300).map { _ in newJob(session: "deep") } + (0..<30).map { _ in newJob(session: "late") }
            + (0..<30).map { _ in newJob(tenant: "other", session: "late") }
        let attempts = try order(of: jobs)
        let head = attempts.prefix(80)
        // Tenants have a half each until the other one has no more; sessions of one tenant a quarter each.
        #expect(head.filter { $0.tenant == "other" }.count == 30)
        #expect((23...27).contains(head.filter { $0.tenant == "acme" && $0.spec.session == "late" }.count))
        // Within a session in the order of submission.
        let deep = attempts.filter { $0.spec.session == "deep" }.map(\.job)
        #expect(deep == jobs.prefix(300).map(\.id))
    }

    @Test("within a session responsive jobs go first, then by priority, then by age")
    func urgency() throws {
        let jobs = [
            newJob(priority: 1, serviceType: .background), newJob(priority: 0.2), newJob(priority: 0.9),
            newJob(priority: 0.9), newJob(priority: 0.1, serviceType: .responsiveData),
            newJob(priority: 0.8, serviceType: .responsiveData),
        ]
        let attempts = try order(of: jobs)
        #expect(attempts.map(\.job) == [5, 4, 2, 3, 1, 0].map { jobs[$0].id })
    }

    @Test("jobs with a near deadline go before older ones of the session, the nearest first")
    func deadlines() throws {
        let now = Timestamp(microseconds: Sys.wallMicroseconds())
        let jobs = [
            newJob(priority: 1, serviceType: .responsiveData), newJob(deadlineAt: now + 90 * 86_400),
            newJob(deadlineAt: now + 7_200), newJob(deadlineAt: now + 3_600),
        ]
        let attempts = try order(of: jobs)
        #expect(attempts.map(\.job) == [3, 2, 0, 1].map { jobs[$0].id })
    }

    @Test("jobs of a paused origin at the head do not delay other jobs of the session")
    func skippedJobs() throws {
        let node = try TestNode(database.url, slots: 1) { $0.heldSeconds = 300 }
        defer { node.store.stop() }
        _ = try node.submit(newJob())
        let first = try node.attempt()
        _ = try node.submit(newJob(host: "limited.example.org"))
        var connection = try Connection(url: database.url)
        try queueCopies(10_000, of: Self.limited, database.url)
        try node.changeHost(Self.limited, #"{"paused":true}"#, known: [node])
        let free = newJob(host: "free.example.org")
        _ = try node.submit(free)
        node.store.dispatcher.record(result(first, success))
        let attempt = try node.attempt()
        #expect(attempt.job == free.id)
        let left = Statement(
            "left_in_wide", "SELECT count(*) FROM jobs WHERE queue > 0 AND origin = '\(Self.limited)'")
        #expect(try connection.execute(left).int64(0, 0) > 8_000)
        // They are moved all the same.
        node.end(attempt, success)
        try eventually("they are moved") { try connection.execute(left).int64(0, 0) == 0 }
    }

    @Test("a job that has waited for the length of the head start goes before new jobs")
    func ageing() throws {
        let node = try TestNode(database.url, slots: 1)
        defer { node.store.stop() }
        _ = try node.submit(newJob())
        let first = try node.attempt()
        let old = newJob(priority: 0, serviceType: .background)
        _ = try node.submit(old)
        var connection = try Connection(url: database.url)
        // Half an hour passes: two steps and the whole range of priorities.
        try connection.execute(
            script: "UPDATE jobs SET urgency = urgency - interval '1801 seconds' WHERE state = 'queued'")
        let new = newJob(priority: 1, serviceType: .responsiveData)
        _ = try node.submit(new)
        node.store.dispatcher.record(result(first, success))
        #expect(try node.attempt().job == old.id)
    }

    @Test("three nodes together keep the shares of sessions within 5 %")
    func shares() throws {
        let api = try TestNode(database.url, isWorker: false)
        defer { api.store.stop() }
        let jobs = (0..<2_000).map { newJob(session: $0 < 1_000 ? "a" : "b") }
        for start in stride(from: 0, to: jobs.count, by: 500) {
            _ = try api.submit(Array(jobs[start..<start + 500])).get()
        }
        let order = Mailbox<Attempt>()
        let workers = try (0..<3).map { _ in try TestNode(database.url, slots: 4) }
        defer { workers.forEach { $0.store.stop() } }
        let seen = Mutex<Set<JobID>>([])
        for worker in workers {
            let serve: @Sendable (Attempt) -> Void = { [dispatcher = worker.store.dispatcher] attempt in
                guard seen.withLock({ $0.insert(attempt.job).inserted }) else { return }
                order.send(attempt)
                dispatcher.record(result(attempt, success))
            }
            worker.runner.react(serve)
            // Those that began before somebody listened.
            worker.runner.begun.take().forEach(serve)
        }
        let attempts = try began(order, jobs.count)
        let head = attempts.prefix(1_000).filter { $0.spec.session == "a" }.count
        #expect(abs(head - 500) <= 25)
        #expect(Set(attempts.map(\.job)).count == jobs.count)
    }

    /// Number of running attempts of the limited origin, and its maximum.
    private final class Gauge: Sendable {
        private let counts = Mutex((now: 0, most: 0))
        func begin() { counts.withLock { $0 = ($0.now + 1, max($0.most, $0.now + 1)) } }
        func end() { counts.withLock { $0.now -= 1 } }
        var most: Int { counts.withLock { $0.most } }
    }

    /// Nodes that end each attempt a little later, in another order.
    private func nodes(_ count: Int, slots: Int, _ gauge: Gauge, _ ending: Mailbox<(TestNode, Attempt)>)
        throws -> [TestNode]
    {
        try (0..<count).map { _ in
            let node = try TestNode(database.url, slots: slots)
            node.runner.react { attempt in
                if attempt.origin == Self.limited { gauge.begin() }
                ending.send((node, attempt))
            }
            return node
        }
    }

    @Test("three nodes never exceed an origin's limit, and all its jobs end")
    func limits() throws {
        let gauge = Gauge()
        let ending = Mailbox<(TestNode, Attempt)>()
        let nodes = try nodes(3, slots: 6, gauge, ending)
        defer { nodes.forEach { $0.store.stop() } }
        try nodes[0].changeHost(Self.limited, #"{"maximum_connections":3}"#, known: nodes)
        for index in 0..<90 {
            let host = index % 3 == 0 ? "free.example.org" : "limited.example.org"
            _ = try nodes[index % 3].submit(newJob(session: "s\(index % 4)", host: host))
        }
        var random = SeededRandom(seed: 7)
        var open: [(TestNode, Attempt)] = []
        var ended = 0
        let deadline = Sys.monotonicNanoseconds() + 60_000_000_000
        while ended < 90 && Sys.monotonicNanoseconds() < deadline {
            open.append(contentsOf: ending.wait(milliseconds: open.isEmpty ? 1_000 : 1))
            guard !open.isEmpty else { continue }
            let (node, attempt) = open.remove(at: Int(random.next() % UInt64(open.count)))
            if attempt.origin == Self.limited { gauge.end() }
            node.store.dispatcher.record(result(attempt, success))
            ended += 1
        }
        #expect(ended == 90)
        #expect(gauge.most == 3)
    }

    @Test(
        "jobs of an origin under a hold wait, others run, and no attempt is used up"
    )
    func backoff() throws {
        let node = try TestNode(database.url, slots: 1) { $0.heldSeconds = 300 }
        defer { node.store.stop() }
        _ = try node.submit(newJob())
        let first = try node.attempt()
        // They queue before anybody knows.
        let held = (0..<5).map { _ in newJob(host: "limited.example.org") }
        _ = try node.submit(held).get()
        let free = (0..<5).map { _ in newJob(host: "free.example.org") }
        _ = try node.submit(free).get()
        try node.changeHost(Self.limited, #"{"backoff_until":"2099-01-01T00:00:00Z"}"#, known: [node])
        let order = Mailbox<Attempt>()
        serve(node, order)
        node.store.dispatcher.record(result(first, success))
        #expect(try began(order, 5).map(\.job) == free.map(\.id))
        // Nothing else begins while it is backed off: a later job of the free origin comes first.
        let late = newJob(host: "free.example.org")
        _ = try node.submit(late)
        #expect(try began(order, 1).map(\.job) == [late.id])
        #expect(try node.status().queued == 5)
        try node.changeHost(Self.limited, #"{"backoff_until":null}"#, known: [node])
        let attempts = try began(order, 5)
        #expect(attempts.map(\.job) == held.map(\.id) && attempts.allSatisfy { $0.number == 1 })
    }

    @Test("a new limit counts the attempts that run already")
    func countsRunning() throws {
        let node = try TestNode(database.url, slots: 8)
        defer { node.store.stop() }
        _ = try node.submit((0..<3).map { _ in newJob(host: "limited.example.org") }).get()
        let running = try node.attempts(3)
        try node.changeHost(Self.limited, #"{"maximum_connections":2}"#, known: [node])
        var connection = try Connection(url: database.url)
        let counted = Statement("counted", "SELECT count(*) FROM jobs WHERE state = 'running' AND queue < 0")
        try eventually("they are counted") { try connection.execute(counted).int64(0, 0) == 3 }
        let next = try node.submit(newJob(host: "limited.example.org"))
        #expect(next.state == .queued)
        node.end(running[0], success)
        node.end(running[1], success)
        #expect(try node.attempt().job == next.id)
        let rows = try connection.execute(
            Statement("running", "SELECT count(*) FROM jobs WHERE state = 'running'"))
        #expect(rows.int64(0, 0) == 2)
    }

    @Test("narrow claim queues without jobs are removed after a while")
    func oldClaimQueues() throws {
        var connection = try Connection(url: database.url)
        try connection.execute(
            script: """
                INSERT INTO claim_queues (id, tenant, session, origin, used_at) VALUES
                    (-1000001, 'acme', 'a', 'http://a:80', now() - interval '1 day'),
                    (-1000002, 'acme', 'b', 'http://b:80', now() - interval '1 day'),
                    (-1000003, 'acme', 'c', 'http://c:80', now());
                INSERT INTO jobs (id, tenant, session, kind, state, waiting_for, next_attempt_at, priority,
                    expires_at, origin, spec, created_at, queue, urgency)
                VALUES (gen_random_uuid(), 'acme', 'b', 'data', 'waiting', 'begin_date', now() + '1 day', 0.5,
                    now() + '7 days', 'http://b:80', '{}', now(), -1000002, now());
                \(countRows("waiting", 1))
                """)
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let left = Statement("left", "SELECT array_agg(id ORDER BY id DESC) FROM claim_queues WHERE id < 0")
        try eventually("the unused one is gone") {
            try connection.execute(left).int64Array(0, 0) == [-1_000_002, -1_000_003]
        }
    }

    @Test("jobs whose claim queue does not exist are found and leased")
    func lostClaimQueues() throws {
        let node = try TestNode(database.url, slots: 1)
        defer { node.store.stop() }
        _ = try node.submit(newJob(session: "first"))
        let first = try node.attempt()
        let lost = newJob(session: "lost")
        #expect(try node.submit(lost).state == .queued)
        var connection = try Connection(url: database.url)
        try connection.execute(script: "DELETE FROM claim_queues WHERE session = 'lost'")
        // A process that knows nothing of it.
        node.store.stop()
        let second = try TestNode(database.url, slots: 2)
        defer { second.store.stop() }
        let began = try second.attempts(2).map(\.job)
        #expect(Set(began) == [first.job, lost.id])
        let rows = try connection.execute(
            Statement("claim_queues", "SELECT count(*) FROM claim_queues WHERE session = 'lost'"))
        #expect(rows.int64(0, 0) == 1)
    }

    @Test("a claim queue of a transaction that was undone is not remembered")
    func undoneClaimQueues() throws {
        let cache = ClaimQueueCache()
        var connection = try Connection(url: database.url)
        let name = ClaimQueueCache.Name(tenant: "acme", session: "undone", origin: "")
        do {
            try connection.transaction { connection throws(PostgresError) in
                _ = try cache.find([name], &connection, isCommitted: false)
                throw PostgresError(.statementFailed, message: "undone")
            }
        } catch {
            #expect(cache.known(name) == nil)
        }
        let queue = try #require(try cache.find([name], &connection, isCommitted: true)[name])
        #expect(cache.known(name)?.id == queue.id)
        cache.forget([queue.id])
        #expect(cache.known(name) == nil)
    }
}
