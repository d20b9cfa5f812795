import FerryCore
import FerryScheduler
import Postgres
import Synchronization
import Sys
import TestSupport
import TestThreads
import Testing

@testable import FerryStore

/// Connections to hosts whose sessions limit them, counted in the memory of a lone node.
@Suite("Permits of a lone node", .onOwnThread)
struct PermitTests {
    private static let limit = 3
    let database: TestDatabase

    init() throws { database = try TestDatabase(template: template) }

    private func makeNode(
        slots: Int = 20, held: Int = 100, id: NodeID = TestNode.identifiers.make(), isAlone: Bool = true,
        leaseSeconds: Double? = nil, sessions: SessionCache? = nil
    ) throws -> TestNode {
        let node = try TestNode(database.url, slots: slots, id: id, leaseSeconds: leaseSeconds) {
            $0.heldSubmissionMax = held
            $0.sessions = sessions ?? SessionCache(connectionsPerHostMax: Self.limit)
        }
        guard isAlone else { return node }
        eventually("the node holds all permits, knows that nothing is queued, and hears of other nodes") {
            connections(node).permits.isHeld && node.store.queueState.backlog.count == 0
                && node.store.nodeState.isListening.load(ordering: .relaxed)
        }
        return node
    }

    private func connections(_ node: TestNode) -> ConnectionRegistry {
        node.store.hostState.connections
    }

    /// Free connections to a host.
    private func room(_ node: TestNode) -> Int? {
        connections(node).room(pool().scope, session: "default")?.count
    }

    private func heldCount(_ node: TestNode) -> Int { node.store.queueState.held.count }

    private func count(_ condition: String, in table: String = "jobs") throws -> Int64 {
        var connection = try Connection(url: database.url)
        let sql = "SELECT count(*) FROM \(table) WHERE \(condition)"
        return try connection.execute(Statement("count", sql)).int64(0, 0)
    }

    private func pool(_ host: String = "example.org", session: String = "default") -> ConnectionPool {
        ConnectionPool(tenant: "acme", session: session, origin: "https://\(host):443")
    }

    /// Counts the connections that attempts use at a host, as an origin does: from the begin of an attempt to
    /// its `end`.
    private final class Origin: Sendable {
        let begun = Mailbox<(node: Int, attempt: Attempt)>()
        private let counts = Mutex((live: 0, most: 0))
        var most: Int { counts.withLock { $0.most } }
        var live: Int { counts.withLock { $0.live } }

        /// `live`: attempts that have begun before.
        init(_ nodes: [TestNode], live: Int = 0) {
            counts.withLock { $0 = (live, live) }
            for (index, node) in nodes.enumerated() {
                node.runner.react { [self] attempt in
                    counts.withLock { $0 = ($0.live + 1, max($0.most, $0.live + 1)) }
                    begun.send((index, attempt))
                }
            }
        }

        /// The last request of the attempt ends.
        func close() { counts.withLock { $0.live -= 1 } }
    }

    @Test("jobs under a limit are leased as they are inserted, and begin one for one as connections end")
    func ends() throws {
        let node = try makeNode()
        defer { node.store.stop() }
        let jobs = (0..<10).map { _ in newJob() }
        let accepted = try node.submit(jobs).get().jobs
        #expect(accepted.allSatisfy { $0.state == .queued && $0.node == nil })
        var running = try node.attempts(Self.limit)
        #expect(running.map(\.job) == jobs.prefix(Self.limit).map(\.id))
        #expect(heldCount(node) == 7 && node.slots.busyCount == Self.limit)
        #expect(try count("node IS NULL") == 0)
        // The connection ends: the next job begins, while this one is still stored.
        let first = running.removeFirst()
        node.store.connections.giveBack(first, first.scope)
        running.append(try node.attempt())
        #expect(running.last?.job == jobs[3].id && node.slots.busyCount == 4)
        // Its result frees nothing more.
        node.end(first, success)
        #expect(connections(node).hold(on: first.scope) == nil && heldCount(node) == 6)
        for _ in 0..<7 {
            node.store.dispatcher.record(result(running.removeFirst(), success))
            if heldCount(node) > 0 || running.count < Self.limit { running += node.runner.begun.take() }
            eventually("the next ones have begun") {
                running += node.runner.begun.take()
                return running.count == Self.limit || heldCount(node) == 0
            }
        }
        for attempt in running { node.store.dispatcher.record(result(attempt, success)) }
        eventually("all have ended") { (try? count("true")) == 0 }
        #expect(node.slots.leaseCount == 0 && room(node) == Self.limit)
    }

    /// A download from one host that is sent to another one.
    private func copy(from source: String, to target: String) throws -> NewJob {
        let text =
            #"{"kind":"download","request":{"url":"https://\#(source)/a"},"#
            + #""destination":{"url":"https://\#(target)/b"}}"#
        let request = try JobRequest(JSONView(parsing: Array(text.utf8))) { _ in nil }
        return newJob().with(request.spec)
    }

    @Test("the other end of a copy gets its connection before jobs that have not begun")
    func copies() throws {
        let node = try makeNode()
        defer { node.store.stop() }
        _ = try node.submit((0..<6).map { _ in newJob() }).get()
        var running = try node.attempts(Self.limit)
        #expect(heldCount(node) == 3)
        let copy = try node.submit(copy(from: "b.example", to: "example.org"))
        let leased = try node.attempt()
        #expect(leased.job == copy.id)
        let other = try #require(leased.copy).target
        let limiter = node.store.connections
        let answers = Mailbox<ConnectionGrant>()
        #expect(limiter.ask(other, for: other.scope) { answers.send($0) } == nil)
        limiter.giveBack(running[0], running[0].scope)
        #expect(answers.wait(milliseconds: 60_000) == [.granted])
        #expect(heldCount(node) == 3 && room(node) == 0)
        // What it returns is for the next job.
        limiter.giveBack(other, other.scope)
        running.append(try node.attempt())
        #expect(heldCount(node) == 2)
        // The wait ends with a refusal, and once.
        #expect(limiter.ask(other, for: other.scope) { answers.send($0) } == nil)
        limiter.endWait(of: other, for: other.scope)
        limiter.endWait(of: other, for: other.scope)
        guard case .refused(let hold)? = answers.wait(milliseconds: 60_000).first else {
            Issue.record("it must be refused")
            return
        }
        #expect(hold.origin == other.origin)
        limiter.giveBack(running[1], running[1].scope)
        running.append(try node.attempt())
        // An attempt that has ended waits no more.
        #expect(limiter.ask(other, for: other.scope) { answers.send($0) } == nil)
        node.end(leased, success)
        limiter.giveBack(running[2], running[2].scope)
        running.append(try node.attempt())
        #expect(heldCount(node) == 0 && answers.take().isEmpty)
    }

    @Test(
        "an end of a copy still gets its connection after the other end has returned its own",
        arguments: ["b.example", "example.org"])
    func wholeSource(host: String) throws {
        let node = try makeNode()
        defer { node.store.stop() }
        _ = try node.submit(copy(from: host, to: "example.org"))
        let leased = try node.attempt()
        let other = try #require(leased.copy).target
        let count = try #require(room(node))
        _ = try node.submit((0..<count).map { _ in newJob() }).get()
        var running = try node.attempts(count)
        let limiter = node.store.connections
        let answers = Mailbox<ConnectionGrant>()
        #expect(limiter.ask(other, for: other.scope) { answers.send($0) } == nil)
        // The file is so small that the source has sent all of it. At one host, the target gets this one.
        limiter.giveBack(leased, leased.scope)
        if count == Self.limit { node.end(running.removeFirst(), success) }
        #expect(answers.wait(milliseconds: 10_000) == [.granted])
        #expect(room(node) == 0)
        limiter.giveBack(other, other.scope)
        #expect(room(node) == 1)
        // The target demands the file again.
        #expect(limiter.ask(other, for: other.scope) { answers.send($0) } == .granted)
        #expect(room(node) == 0)
        for attempt in running + [leased] { node.end(attempt, success) }
        #expect(answers.take().isEmpty && room(node) == Self.limit)
    }

    @Test("an end of a copy that sends parts returns each of its connections", arguments: [true, false])
    func parts(isOther: Bool) throws {
        let node = try makeNode()
        defer { node.store.stop() }
        let job =
            isOther
            ? try copy(from: "b.example", to: "example.org") : try copy(from: "example.org", to: "b.example")
        _ = try node.submit(job)
        let leased = try node.attempt()
        let end = isOther ? try #require(leased.copy).target : leased
        let limiter = node.store.connections
        for _ in 0..<(isOther ? Self.limit : Self.limit - 1) {
            #expect(limiter.ask(end, for: end.scope) { _ in } == .granted)
        }
        #expect(room(node) == 0)
        for _ in 0..<Self.limit { limiter.giveBack(end, end.scope) }
        #expect(room(node) == Self.limit)
        node.end(leased, success)
        #expect(room(node) == Self.limit)
    }

    @Test("both ends of a copy may wait for their connections")
    func bothEnds() throws {
        let node = try makeNode()
        defer { node.store.stop() }
        _ = try node.submit(copy(from: "b.example", to: "example.org"))
        let leased = try node.attempt()
        let other = try #require(leased.copy).target
        let limiter = node.store.connections
        limiter.giveBack(leased, leased.scope)
        let jobs = (0..<Self.limit).flatMap { _ in [newJob(), newJob(host: "b.example")] }
        _ = try node.submit(jobs).get()
        let running = try node.attempts(2 * Self.limit)
        let (source, target) = (Mailbox<ConnectionGrant>(), Mailbox<ConnectionGrant>())
        #expect(limiter.ask(other, for: other.scope) { target.send($0) } == nil)
        #expect(limiter.ask(leased, for: leased.scope) { source.send($0) } == nil)
        for attempt in running where attempt.origin == leased.origin { node.end(attempt, success) }
        #expect(source.wait(milliseconds: 10_000) == [.granted])
        #expect(target.take().isEmpty)
        for attempt in running where attempt.origin == other.origin { node.end(attempt, success) }
        #expect(target.wait(milliseconds: 10_000) == [.granted])
        #expect(room(node) == Self.limit - 1)
        node.end(leased, success)
        #expect(room(node) == Self.limit)
    }

    @Test("copies that have all connections of their one host do not all wait for a second one")
    func copiesOnly() throws {
        let node = try makeNode()
        defer { node.store.stop() }
        let jobs = try (0..<Self.limit).map { _ in try copy(from: "example.org", to: "example.org") }
        _ = try node.submit(jobs).get()
        let running = try node.attempts(Self.limit)
        let answers = Mailbox<ConnectionGrant>()
        let atOnce = try running.map { leased in
            let other = try #require(leased.copy).target
            return node.store.connections.ask(other, for: other.scope) { answers.send($0) }
        }
        let hold = HostHold(origin: "https://example.org:443", reason: .sessionLimit(Self.limit))
        #expect(atOnce == [nil, .refused(hold), .refused(hold)])
        node.store.dispatcher.record(result(running[1], .putOff(hold)))
        #expect(answers.wait(milliseconds: 10_000) == [.granted])
    }

    @Test("a copy that waits is refused once the node returns the permits")
    func returned() throws {
        let node = try makeNode()
        defer { node.store.stop() }
        _ = try node.submit((0..<Self.limit).map { _ in newJob() }).get()
        _ = try node.attempts(Self.limit)
        _ = try node.submit(copy(from: "b.example", to: "example.org"))
        let other = try #require(node.attempt().copy).target
        let answers = Mailbox<ConnectionGrant>()
        #expect(node.store.connections.ask(other, for: other.scope) { answers.send($0) } == nil)
        let second = try makeNode(isAlone: false)
        defer { second.store.stop() }
        let hold = HostHold(origin: other.origin, reason: .sessionLimit(Self.limit))
        #expect(answers.wait(milliseconds: 60_000) == [.refused(hold)])
        #expect(!connections(node).permits.isHeld)
    }

    @Test("a host without a free connection delays neither other hosts nor other sessions")
    func others() throws {
        let node = try makeNode()
        defer { node.store.stop() }
        _ = try node.submit((0..<8).map { _ in newJob() }).get()
        let running = try node.attempts(Self.limit)
        let other = try node.submit(newJob(host: "b.example"))
        #expect(try node.attempt().job == other.id)
        let session = try node.submit(newJob(session: "second"))
        #expect(try node.attempt().job == session.id)
        #expect(heldCount(node) == 5, "those of the first host still wait in memory")
        // A more urgent job is the next one of its host.
        let urgent = try node.submit(newJob(priority: 1))
        node.store.connections.giveBack(running[0], running[0].scope)
        #expect(try node.attempt().job == urgent.id)
    }

    @Test("when no slot is free, held jobs of several sessions go back, and shares decide")
    func competition() throws {
        let node = try makeNode(slots: 4)
        defer { node.store.stop() }
        let jobs = (0..<6).map { _ in newJob() }
        _ = try node.submit(jobs).get()
        let running = try node.attempts(Self.limit)
        let second = (0..<6).map { _ in newJob(session: "second") }
        _ = try node.submit(second).get()
        let one = try node.attempt()
        #expect(one.job == second[0].id)
        eventually("none is held in memory") { heldCount(node) == 0 }
        for attempt in running + [one] { node.store.dispatcher.record(result(attempt, success)) }
        let next = try node.attempts(4)
        let sessions = Set(next.map(\.spec.session))
        #expect(sessions == ["default", "second"], "both have a share")
    }

    @Test("a request that must not be repeated is queued, and claimed when a connection is free")
    func claims() throws {
        let node = try makeNode()
        defer { node.store.stop() }
        let jobs = (0..<5).map { _ in newJob(kind: .data, method: "POST") }
        _ = try node.submit(jobs).get()
        let running = try node.attempts(Self.limit)
        #expect(try count("state = 'queued' AND node IS NULL") == 2)
        // Later jobs come after those that are queued.
        let late = try node.submit(newJob())
        for expected in [jobs[3].id, jobs[4].id, late.id] {
            let index = [jobs[3].id, jobs[4].id, late.id].firstIndex(of: expected) ?? 0
            node.store.connections.giveBack(running[index], running[index].scope)
            #expect(try node.attempt().job == expected)
        }
        #expect(try count("state = 'running'") == 6, "those that are stored count no more")
    }

    @Test("parts and redirects use connections that no job waits for, and never more than the limit")
    func further() throws {
        let node = try makeNode()
        defer { node.store.stop() }
        _ = try node.submit([newJob(), newJob(host: "b.example")]).get()
        let attempts = try node.attempts(2)
        let (own, other) = (attempts[0], attempts[1])
        let scope = own.scope
        func ask(_ attempt: Attempt) -> ConnectionGrant? {
            node.store.connections.ask(attempt, for: scope) { _ in Issue.record("the answer comes at once") }
        }
        #expect(ask(own) == .granted && ask(other) == .granted)
        let hold = HostHold(origin: scope.origin, reason: .sessionLimit(Self.limit))
        #expect(ask(own) == .refused(hold) && ask(other) == .refused(hold))
        let waiting = try node.submit(newJob())
        #expect(heldCount(node) == 1)
        node.store.connections.giveBack(own, scope)
        #expect(try node.attempt().job == waiting.id, "jobs go before parts")
        #expect(ask(own) == .refused(hold))
        node.end(other, success)
        #expect(ask(own) == .granted, "the result returned the connection to the other host")
        #expect(try count("true", in: "connections") == 0)
    }

    @Test("an attempt that returns to its own host waits for the next connection, also while jobs wait")
    func comesBack() throws {
        let node = try makeNode()
        defer { node.store.stop() }
        _ = try node.submit((0..<6).map { _ in newJob() }).get()
        let running = try node.attempts(Self.limit)
        // It follows a redirect elsewhere.
        node.store.connections.giveBack(running[0], running[0].scope)
        let fourth = try node.attempt()
        let granted = Mailbox<ConnectionGrant>()
        let answer = node.store.connections.ask(running[0], for: running[0].scope) { granted.send($0) }
        #expect(answer == nil)
        node.store.dispatcher.record(result(fourth, success))
        #expect(granted.wait(milliseconds: 60_000) == [.granted])
        #expect(node.runner.begun.take().isEmpty && heldCount(node) == 2)
        // One that ends while it waits leaves no gap.
        node.store.connections.giveBack(running[1], running[1].scope)
        _ = try node.attempt()
        #expect(node.store.connections.ask(running[1], for: running[1].scope) { granted.send($0) } == nil)
        node.store.dispatcher.record(result(running[1], .cancelled))
        node.store.dispatcher.record(result(running[2], .suspended))
        _ = try node.attempt()
        #expect(granted.take().isEmpty && heldCount(node) == 0)
    }

    @Test("connections come back from attempts that are cancelled, suspended, put off or released")
    func outcomes() throws {
        let node = try makeNode()
        defer { node.store.stop() }
        let hold = HostHold(origin: "https://b.example:443", reason: .hostPaused)
        // Jobs that are put off or released begin again.
        let outcomes: [AttemptResult.Outcome] = [.cancelled, .suspended, failure(), .released, .putOff(hold)]
        for outcome in outcomes {
            _ = try node.submit((0..<Self.limit).map { _ in newJob(attemptCountMax: 1) }).get()
            for attempt in try node.attempts(Self.limit) {
                node.store.dispatcher.record(result(attempt, outcome))
            }
            try eventually("all jobs have ended, and all connections are free") {
                for again in node.runner.begun.take() {
                    node.store.dispatcher.record(result(again, .cancelled))
                }
                return try count("state <> 'suspended'") == 0 && room(node) == Self.limit
            }
        }
        // A held job that is cancelled never had one.
        let jobs = (0..<5).map { _ in newJob() }
        _ = try node.submit(jobs).get()
        let running = try node.attempts(Self.limit)
        _ = try wait { node.store.jobCommands.cancel(jobs[3].id, tenant: "acme", reply: $0) }.get()
        _ = try wait { node.store.jobCommands.suspend(jobs[4].id, tenant: "acme", reply: $0) }.get()
        eventually("they have left") { heldCount(node) == 0 }
        for attempt in running { node.store.dispatcher.record(result(attempt, success)) }
        eventually("all connections are free") {
            room(node) == Self.limit
        }
        #expect(node.slots.busyCount == 0)
    }

    @Test("a host limit counts the jobs that began before, and held jobs wait for claims")
    func hostLimit() throws {
        let node = try makeNode()
        defer { node.store.stop() }
        _ = try node.submit((0..<8).map { _ in newJob() }).get()
        let running = try node.attempts(Self.limit)
        try node.changeHost("https://example.org:443", #"{"maximum_connections":2}"#, known: [node])
        eventually("the held ones are queued") {
            (try? count("state = 'queued' AND node IS NULL")) == 5 && heldCount(node) == 0
        }
        #expect(try count("state = 'running'") == 3, "their begins are written")
        node.end(running[0], success)
        // Two still run.
        let room = connections(node).room(running[0].scope, session: "default")
        #expect(room?.isCountedByRows == true)
        node.end(running[1], success)
        let next = try node.attempt()
        node.end(running[2], success)
        _ = try node.attempt()
        #expect(try count("state = 'running'") == 2)
        // Without the limit the node counts alone again.
        try node.changeHost("https://example.org:443", #"{"maximum_connections":null}"#, known: [node])
        _ = try node.attempt()
        node.end(next, success)
        _ = try node.attempt()
    }

    @Test("a session's new limit applies to its next job, and jobs that begin above it do not")
    func sessionLimit() throws {
        let node = try makeNode()
        defer { node.store.stop() }
        func put(_ limit: Int, if condition: SessionCondition = .exists) throws {
            var configuration = SessionConfiguration()
            configuration.connectionsPerHostMax = limit
            let draft = SessionDraft(configuration: configuration, secrets: JobSecrets(), sealedSecrets: nil)
            let key = SessionKey(tenant: "acme", name: "narrow")
            _ = try wait { node.store.sessions.putSession(key, draft, if: condition, reply: $0) }.get()
        }
        try put(2, if: .none)
        _ = try node.submit((0..<8).map { _ in newJob(session: "narrow") }).get()
        var running = try node.attempts(2)
        try put(4)
        running += try node.attempts(2)
        try put(1)
        for _ in 0..<3 { node.store.dispatcher.record(result(running.removeFirst(), success)) }
        eventually("they have ended") { (try? count("state = 'queued'")) == 4 }
        #expect(node.runner.begun.take().isEmpty)
        node.store.dispatcher.record(result(running[0], success))
        _ = try node.attempt()
        eventually("the others wait") { (try? count("state = 'queued'")) == 3 }
        #expect(node.runner.begun.take().isEmpty)
    }

    @Test("two nodes together never exceed the limit, while one joins and both work")
    func joining() throws {
        let first = try makeNode()
        defer { first.store.stop() }
        let origin = Origin([first])
        let jobs = (0..<60).map { _ in newJob() }
        _ = try first.submit(Array(jobs[..<30])).get()
        eventually("the first node uses all connections") { origin.live == Self.limit }
        let second = try makeNode(isAlone: false)
        defer { second.store.stop() }
        let both = Origin([first, second], live: Self.limit)
        eventually("the permits are returned") { connections(first).permits.isAbsent }
        #expect(try count("state = 'running'") == Int64(Self.limit))
        #expect(try count("has_permits", in: "nodes") == 0)
        _ = try second.submit(Array(jobs[30...])).get()
        let nodes = [first, second]
        var early = origin.begun.take().map(\.attempt)
        var (ended, fromSecond): (Set<JobID>, Int) = ([], 0)
        let deadline = Sys.monotonicNanoseconds() + 60_000_000_000
        while ended.count < jobs.count, Sys.monotonicNanoseconds() < deadline {
            if let attempt = early.popLast() {
                both.close()
                first.store.dispatcher.record(result(attempt, success))
                ended.insert(attempt.job)
                continue
            }
            for (index, attempt) in both.begun.wait(milliseconds: 200) {
                fromSecond += index
                both.close()
                nodes[index].store.dispatcher.record(result(attempt, success))
                ended.insert(attempt.job)
            }
        }
        #expect(ended.count == jobs.count && both.most <= Self.limit, "\(both.most)")
        #expect(connections(second).permits.isAbsent)
    }

    @Test("a node that starts claims nothing under a limit until the owner of the permits has returned them")
    func owner() throws {
        let first = try makeNode(leaseSeconds: 300)
        defer { first.store.stop() }
        _ = try first.submit((0..<4).map { _ in newJob() }).get()
        _ = try first.attempts(Self.limit)
        var connection = try Connection(url: database.url)
        // As of a node that does not hear of others and whose next heartbeat is far.
        let dead: NodeID = TestNode.identifiers.make()
        try connection.execute(
            script: """
                INSERT INTO nodes (id, started_at, heartbeat_at, running, draining, is_worker, name, version,
                    has_permits)
                VALUES ('\(dead.uuidText)', now(), now(), 0, false, true, 'other', '0', true)
                """)
        let second = try makeNode(isAlone: false, leaseSeconds: 300)
        defer { second.store.stop() }
        eventually("the first node has returned its permits") { connections(first).permits.isAbsent }
        let free = try second.submit(newJob(host: "b.example"))
        #expect(try second.job(free.id).get().record.state == .queued)
        // The owner is silent for longer than a lease.
        try connection.execute(
            script: "UPDATE nodes SET heartbeat_at = now() - interval '1 hour' WHERE id = '\(dead.uuidText)'")
        eventually("one of the nodes begins it") {
            first.runner.begun.take().contains { $0.job == free.id }
                || second.runner.begun.take().contains { $0.job == free.id }
        }
    }

    @Test("the next process of a killed node begins with all connections free")
    func restart() throws {
        let id: NodeID = TestNode.identifiers.make()
        let node = try makeNode(id: id)
        let jobs = (0..<6).map { _ in newJob() }
        _ = try node.submit(jobs).get()
        _ = try node.attempts(Self.limit)
        // As a killed process leaves its rows.
        let dead: NodeID = TestNode.identifiers.make()
        var connection = try Connection(url: database.url)
        try connection.execute(
            script: """
                INSERT INTO nodes
                SELECT (jsonb_populate_record(n, '{"id": "\(dead.uuidText)"}')).* FROM nodes n;
                UPDATE jobs SET node = '\(dead.uuidText)';
                """)
        node.store.stop()
        let next = try makeNode(id: dead, isAlone: false)
        defer { next.store.stop() }
        let begun = try next.attempts(Self.limit)
        #expect(begun.allSatisfy { attempt in jobs.contains { $0.id == attempt.job } })
        #expect(next.runner.begun.take().isEmpty)
        eventually("it holds the permits") { connections(next).permits.isHeld }
        for attempt in begun { next.store.dispatcher.record(result(attempt, success)) }
        for attempt in try next.attempts(3) { next.store.dispatcher.record(result(attempt, success)) }
        eventually("all have ended") { (try? count("true")) == 0 }
    }
}

extension ConnectionPool {
    /// The scope of a request to the root.
    fileprivate var scope: RequestScope { RequestScope(tenant: tenant, origin: origin, path: "/a") }
}
