import FerryCore
import FerryScheduler
import Postgres
import Synchronization
import Sys
import TestSupport
import TestThreads
import Testing

@testable import FerryStore

@Suite("Host coordinator", .onOwnThread)
struct HostCoordinatorTests {
    let database: TestDatabase

    init() throws { database = try TestDatabase(template: template) }

    private let origin = "https://away.example:443"

    private func couldNotConnect() -> AttemptResult.Outcome {
        .failed(
            TransferError(.couldNotConnect, "It was refused.", phase: .connecting, isRetryable: true),
            retryAfter: nil)
    }

    /// Fails the attempts, and their repetitions until the host is known to be unreachable. Then `parked`
    /// jobs wait for a probe.
    private func fail(_ attempts: [Attempt], on node: TestNode, parked: Int64) throws {
        for attempt in attempts { node.end(attempt, couldNotConnect()) }
        var connection = try Connection(url: database.url)
        let sql = "SELECT count(*) FROM jobs WHERE state = 'waiting' AND next_attempt_at IS NULL"
        try eventually("all wait until they are found") {
            for attempt in node.runner.begun.take() { node.end(attempt, couldNotConnect()) }
            return try connection.execute(Statement("parked", sql)).int64(0, 0) == parked
        }
    }

    /// An attempt that was redirected to another origin, which was unreachable.
    private func ledElsewhere(_ attempt: Attempt) -> AttemptResult {
        AttemptResult(
            attempt: attempt, outcome: couldNotConnect(), response: nil, bytesReceived: 0, bytesSent: 0,
            endedAtOtherHost: true)
    }

    @Test("reports of a cut-off node keep responses and drop failures to reach hosts")
    func cutOff() {
        let job = TestNode.identifiers.make() as JobID
        var report = ScopeReport()
        for signal in [HostSignal.unreachable(.couldNotConnect), .unanswered, .answered] {
            report.add(signal, job: job)
        }
        let believed = report.withoutFailedConnections
        #expect(believed.answered == 1 && !believed.isTrouble)
        var other = ScopeReport()
        for signal in [HostSignal.unreachable(.couldNotConnect), .unanswered] { other.add(signal, job: job) }
        #expect(other.withoutFailedConnections.isEmpty, "the report is empty")
    }

    @Test("jobs of an unreachable host wait without using attempts until one of its probes succeeds")
    func unreachable() throws {
        let prober = ScriptedProber()
        let node = try TestNode(database.url, slots: 8, prober: prober)
        defer { node.store.stop() }
        _ = try node.submit((0..<6).map { _ in newJob(host: "away.example", attemptCountMax: 1) }).get()
        try fail(try node.attempts(6), on: node, parked: 6)
        let first = try #require(prober.asked.wait(milliseconds: 60_000).first)
        #expect(first.origin == origin)
        #expect(prober.asked.take().isEmpty, "one probe at a time")
        first.reply(
            TransferError(.couldNotConnect, "It was refused.", phase: .connecting, isRetryable: true))
        let second = try #require(prober.asked.wait(milliseconds: 60_000).first)
        let waiting = try node.status()
        #expect(waiting.waiting == 6 && waiting.running == 0, "no attempt was made meanwhile")
        second.reply(nil)
        let again = try node.attempts(6)
        #expect(again.allSatisfy { $0.failedAttemptCount == 0 })
        for attempt in again { node.end(attempt, success) }
        #expect(try countedStates(database.url).isEmpty)
    }

    @Test("a job redirected to an unreachable host retries alone, and its origin is not probed")
    func elsewhere() throws {
        let prober = ScriptedProber()
        let node = try TestNode(database.url, prober: prober)
        defer { node.store.stop() }
        let job = try node.submit(newJob(host: "elsewhere.example"))
        let attempt = try node.attempt()
        node.store.dispatcher.record(ledElsewhere(attempt))
        // Retried after a second without a probe.
        let next = try node.attempt()
        #expect(next.job == job.id && next.failedAttemptCount == 0 && next.number == 2)
        node.end(next, success)
        #expect(prober.asked.take().isEmpty)
    }

    @Test("a hold learned on one node applies on all nodes, and its decision is stored")
    func shared() throws {
        let first = try TestNode(database.url, slots: 1)
        defer { first.store.stop() }
        // The second node has no slot for the job.
        let second = try TestNode(database.url, slots: 0)
        defer { second.store.stop() }
        _ = try first.submit((0..<2).map { _ in newJob(host: "busy.example") }).get()
        let nodes = [first, second]
        let scope = RequestScope(tenant: "acme", origin: "https://busy.example:443", path: "/a")
        // Both jobs get the same response, with no other response in between.
        for _ in 0..<2 { first.store.dispatcher.record(throttled(try first.attempt(), retryAfter: 600)) }
        for node in nodes {
            eventually("the path is held on every node") {
                node.hosts.limit(of: scope)?.blockedUntil != nil
            }
        }
        let host = try wait { second.store.hostCommands.host("https://busy.example:443", reply: $0) }.get()
        #expect(host.state == .normal && host.scopes.count == 1)
        let kinds = try host.decisions.map { try JSON.parse($0)["kind"]?.string }
        #expect(kinds.contains("backed_off"))
        let patch = try HostPatch(body: JSONView(parsing: Array(#"{"backoff_until":null}"#.utf8)))
        let changed = try wait {
            second.store.hostCommands.changeHost(
                "https://busy.example:443", patch, if: { _ in true }, reply: $0)
        }.get().get()
        #expect(changed.backoffUntil == nil)
        for node in nodes {
            eventually("it is free again") {
                node.hosts.limit(of: scope)?.blockedUntil == nil
            }
        }
    }

    @Test("jobs that wait for a host without a row are released")
    func stranded() throws {
        let node = try TestNode(database.url, prober: ScriptedProber())
        defer { node.store.stop() }
        let job = try node.submit(newJob(host: "away.example"))
        node.store.dispatcher.record(ledElsewhere(try node.attempt()))
        var connection = try Connection(url: database.url)
        let strand = Statement(
            "strand", "UPDATE jobs SET next_attempt_at = NULL WHERE state = 'waiting'")
        try eventually("it waits") {
            // The job may have been tried again meanwhile.
            for again in node.runner.begun.take() { node.store.dispatcher.record(ledElsewhere(again)) }
            return try connection.execute(strand).affectedRowCount == 1
        }
        #expect(try node.attempt().job == job.id)
    }

    @Test("with 12,000 hosts in trouble a node tracks 10,000 and reports each once")
    func bounded() throws {
        let health = HostHealth()
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        _ = try node.submit(newJob())
        let attempt = try node.attempt()
        for number in 0..<12_000 {
            let one = Attempt(
                job: attempt.job, number: 1, failedAttemptCount: 0, revision: 1, tenant: attempt.tenant,
                createdAt: attempt.createdAt, startedAt: attempt.startedAt, spec: attempt.spec,
                storedSpec: attempt.storedSpec, secrets: attempt.secrets, payload: nil,
                origin: "https://h\(number).example:443", scopePath: "/", traceparent: nil, retryOf: nil,
                isCancelRequested: false)
            let result = result(one, couldNotConnect())
            for _ in 0..<HostHealth.failureCountMin { health.note(result, HostSignal(result)) }
        }
        let reports = health.takeReports(.max)
        #expect(reports.count == HostHealth.countMax)
        #expect(health.takeReports(.max).isEmpty, "reported once")
        health.putBack(reports)
        #expect(health.takeReports(.max).count == HostHealth.countMax, "reported again after putBack")
    }

    @Test("a node has at most 64 probes in flight and begins the next when one ends")
    func manyProbes() throws {
        let prober = ScriptedProber()
        let node = try TestNode(database.url, slots: 132, prober: prober)
        defer { node.store.stop() }
        let jobs = (0..<132).map { newJob(host: "h\($0 / 2 + 1).example", attemptCountMax: 1) }
        _ = try node.submit(jobs).get()
        try fail(try node.attempts(132), on: node, parked: 132)
        var asked: [ScriptedProber.Question] = []
        while asked.count < 64 {
            let more = prober.asked.wait(milliseconds: 120_000)
            try #require(!more.isEmpty)
            asked += more
        }
        #expect(asked.count == 64)
        asked[0].reply(nil)
        let next = try #require(prober.asked.wait(milliseconds: 60_000).first, "at once")
        #expect(!asked.contains { $0.origin == next.origin })
    }

    @Test("unknown names may use half of the rows, and hosts of operators have rows in reserve")
    func reserve() throws {
        var connection = try Connection(url: database.url)
        let fill = { (count: Int) in
            """
            INSERT INTO hosts (origin) SELECT 'https://junk' || n || '.example:443'
            FROM generate_series(1, \(count)) AS n ON CONFLICT DO NOTHING
            """
        }
        func exists(_ host: String) throws -> Bool {
            var connection = try Connection(url: database.url)
            let sql = "SELECT count(*) FROM hosts WHERE origin = 'https://\(host):443'"
            return try connection.execute(Statement("host_exists", sql)).int64(0, 0) == 1
        }
        try connection.execute(script: fill(5_000))
        let node = try TestNode(database.url, slots: 8, prober: ScriptedProber())
        defer { node.store.stop() }
        let hostNotFound = AttemptResult.Outcome.failed(
            TransferError(.hostNotFound, "No such name.", phase: .resolving, isRetryable: true),
            retryAfter: nil)
        let jobs = ["unknown.example", "away.example"].flatMap { host in
            (0..<2).map { _ in newJob(host: host) }
        }
        _ = try node.submit(jobs).get()
        for attempt in try node.attempts(4) {
            node.end(attempt, attempt.origin == origin ? couldNotConnect() : hostNotFound)
        }
        var again: [Attempt] = []
        func goOn() {
            for attempt in node.runner.begun.take() {
                // Until the host has a row, its jobs are tried again as well.
                guard attempt.origin == origin else {
                    again.append(attempt)
                    continue
                }
                node.end(attempt, couldNotConnect())
            }
        }
        try eventually("the host has a row") {
            goOn()
            return try exists("away.example")
        }
        #expect(try !exists("unknown.example"))
        eventually("the other one's jobs wait as well, by themselves") {
            goOn()
            return again.count == 2
        }
        #expect(again.allSatisfy { $0.failedAttemptCount == 0 })
        try connection.execute(script: fill(10_000))
        let patch = try HostPatch(body: JSONView(parsing: Array(#"{"paused":true}"#.utf8)))
        let changed = try wait {
            node.store.hostCommands.changeHost(
                "https://operator.example:443", patch, if: { _ in true }, reply: $0)
        }.get().get()
        #expect(changed.state == .paused)
        try connection.execute(script: fill(11_000))
        let refused = wait {
            node.store.hostCommands.changeHost(
                "https://late.example:443", patch, if: { _ in true }, reply: $0)
        }
        #expect(throws: StoreError.overloaded) { try refused.get() }
    }

    @Test("healthy hosts and single failures are not reported")
    func quiet() throws {
        let health = HostHealth()
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        _ = try node.submit(newJob())
        let attempt = try node.attempt()
        let good = result(attempt, success)
        for _ in 0..<1_000 { health.note(good, HostSignal(good)) }
        #expect(health.isQuiet)
        let bad = result(attempt, couldNotConnect())
        health.note(bad, HostSignal(bad))
        health.note(good, HostSignal(good))
        health.note(bad, HostSignal(bad))
        #expect(health.takeReports(.max).isEmpty && health.messages.take().isEmpty)
    }
}

/// Keeps the requests until the test replies.
final class ScriptedProber: HostProber {
    struct Question: Sendable {
        let origin: String
        let reply: @Sendable (TransferError?) -> Void
    }
    let asked = Mailbox<Question>()

    func probe(_ origin: String, reply: @escaping @Sendable (TransferError?) -> Void) {
        asked.send(Question(origin: origin, reply: reply))
    }
}

/// Returns an attempt with response 429 and `Retry-After`.
func throttled(_ attempt: Attempt, retryAfter: Double) -> AttemptResult {
    AttemptResult(
        attempt: attempt,
        outcome: .failed(
            TransferError(
                .unacceptableStatus, "The server answered with status 429.", phase: .waiting,
                isRetryable: true), retryAfter: retryAfter),
        response: nil, bytesReceived: 0, bytesSent: 0,
        hostResponse: .init(job: attempt.job, scope: attempt.scope, status: 429, retryAfter: retryAfter))
}
