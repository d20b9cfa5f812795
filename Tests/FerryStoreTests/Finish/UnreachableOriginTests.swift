import FerryCore
import Postgres
import Sys
import TestSupport
import TestThreads
import Testing

@testable import FerryStore

@Suite("Queued jobs of unreachable origins", .onOwnThread)
struct UnreachableOriginTests {
    let database: TestDatabase

    init() throws { database = try TestDatabase(template: template) }

    private static let couldNotConnect = AttemptResult.Outcome.failed(
        TransferError(.couldNotConnect, "It was refused.", phase: .connecting, isRetryable: true),
        retryAfter: nil)

    private func changed(_ job: NewJob, _ change: (inout JobSpec) -> Void) -> NewJob {
        var spec = job.spec
        change(&spec)
        return job.with(spec)
    }

    private func proxied(_ spec: inout JobSpec) throws {
        var rules = ConnectionRules()
        rules.proxy = .init(url: try ProxyURL("http://proxy.example:3128"))
        spec.request.connection = rules
    }

    /// A node that knows that nobody reaches away.example, and the jobs that have found it out.
    private func away(_ node: TestNode) throws -> [NewJob] {
        let jobs = (0..<2).map { _ in newJob(host: "away.example") }
        _ = try node.submit(jobs).get()
        for attempt in try node.attempts(2) { node.end(attempt, Self.couldNotConnect) }
        try eventually("both wait until it is found") {
            // Until it is known who has waited for a second tries again.
            for attempt in node.runner.begun.take() { node.end(attempt, Self.couldNotConnect) }
            var connection = try Connection(url: database.url)
            let sql = "SELECT count(*) FROM jobs WHERE state = 'waiting' AND next_attempt_at IS NULL"
            return try connection.execute(Statement("parked", sql)).int64(0, 0) == 2
        }
        // Until then what comes begins at once where there are slots.
        let health = node.store.hostState.health
        eventually("the node knows it") { health.unreachable("https://away.example:443") != nil }
        return jobs
    }

    @Test(
        "jobs of an unreachable origin wait without a lease, others begin, and all begin when it is back",
        arguments: [false, true])
    func waits(isLimited: Bool) throws {
        let prober = ScriptedProber()
        // However long the test takes to look, what is held is not given back.
        let node = try TestNode(database.url, slots: 8, prober: prober) { $0.heldSeconds = 300 }
        defer { node.store.stop() }
        if isLimited {
            let patch = try HostPatch(body: JSONView(parsing: Array(#"{"maximum_connections":4}"#.utf8)))
            _ = try wait {
                node.store.hostCommands.changeHost(
                    "https://away.example:443", patch, if: { _ in true }, reply: $0)
            }
            .get().get()
            eventually("it is known") { !node.hosts.isEmpty }
        }
        let first = try away(node)
        let patient = (0..<300).map { _ in newJob(host: "away.example") }
        let impatient = changed(newJob(host: "away.example")) { $0.schedule.waitsForConnectivity = false }
        let mirrored = changed(newJob(host: "away.example")) { $0.mirrors = ["https://b.example/a"] }
        let other = newJob(host: "other.example")
        _ = try node.submit(patient + [impatient, mirrored, other]).get()
        let begun = try node.attempts(3)
        #expect(Set(begun.map(\.job)) == [impatient.id, mirrored.id, other.id])
        for attempt in begun { node.end(attempt, success) }
        try eventually("they wait") { try countedStates(database.url) == ["waiting": 302] }
        let record = try node.job(patient[299].id).get().record
        #expect(record.waitingFor == .connectivity && record.attempt == 0 && record.startedAt == nil)
        let error = record.error
        #expect(error?.code.choice == .couldNotConnect)
        let counts = try node.status()
        #expect(counts.waiting == 302 && counts.queued == 0 && counts.running == 0)
        try eventually("each is told of once") {
            let log = try EventLog(database.url)
            return log.events.count { $0.record.type == .jobWaitingForConnectivity } == 302
        }
        let told = try EventLog(database.url).events.filter { $0.record.job == patient[0].id }
        #expect(told.map(\.record.type) == [.jobCreated, .jobWaitingForConnectivity])
        try #require(prober.asked.wait(milliseconds: 60_000).first).reply(nil)
        var served: Set<JobID> = []
        while served.count < 302 {
            let attempts = node.runner.begun.wait(milliseconds: 60_000)
            try #require(!attempts.isEmpty)
            for attempt in attempts {
                #expect(attempt.number == 1 || first.contains { $0.id == attempt.job })
                served.insert(attempt.job)
                node.store.dispatcher.record(result(attempt, success))
            }
        }
        #expect(served == Set((first + patient).map(\.id)))
    }

    @Test("jobs of an unreachable origin at the head do not delay other jobs of the session")
    func skippedJobs() throws {
        let node = try TestNode(database.url, slots: 1, prober: ScriptedProber()) { $0.heldSeconds = 300 }
        defer { node.store.stop() }
        _ = try node.submit(newJob())
        let first = try node.attempt()
        // Its text as it is stored by the service.
        _ = try node.submit(changed(newJob(host: "away.example")) { _ in })
        // More than two windows of a claim.
        try queueCopies(12_000, of: "https://away.example:443", moreUrgentBy: 1, database.url)
        var connection = try Connection(url: database.url)
        try connection.execute(
            script: """
                INSERT INTO hosts (origin, unreachable, is_awaited)
                VALUES ('https://away.example:443', 'could_not_connect', true);
                """)
        let health = node.store.hostState.health
        eventually("the node knows it") { health.unreachable("https://away.example:443") != nil }
        let free = newJob(host: "free.example.org")
        _ = try node.submit(free)
        node.store.dispatcher.record(result(first, success))
        let attempt = try node.attempt()
        #expect(attempt.job == free.id)
        let left = Statement("left", "SELECT count(*) FROM jobs WHERE state = 'queued'")
        #expect(try connection.execute(left).int64(0, 0) > 8_000)
        node.end(attempt, success)
        // They wait all the same, a few at a time: between two rounds of that claims do nothing else.
        let waits = Statement("waits", "SELECT count(*) FROM jobs WHERE waiting_for = 'connectivity'")
        try eventually("some wait") { try connection.execute(waits).int64(0, 0) > 1_000 }
    }

    @Test("the pause before the next attempt grows with each wait, not with leases that were given back")
    func pauses() throws {
        let node = try TestNode(database.url, slots: 2, prober: ScriptedProber())
        defer { node.store.stop() }
        let job = try node.submit(newJob(host: "away.example")).id
        for _ in 0..<8 { node.end(try node.attempt(), .released) }
        node.end(try node.attempt(), Self.couldNotConnect)
        // After a second, and not after four minutes.
        let next = try node.attempt()
        #expect(next.job == job && next.number == 10)
        var connection = try Connection(url: database.url)
        try connection.execute(script: "UPDATE jobs SET connectivity_waits = 20")
        node.store.dispatcher.record(
            AttemptResult(
                attempt: next, outcome: Self.couldNotConnect, response: nil, bytesReceived: 0, bytesSent: 0,
                endedAtOtherHost: true))
        try eventually("it waits again") { try node.job(job).get().record.state == .waiting }
        let due = try #require(try node.job(job).get().record.nextAttemptAt)
        let pause = due - Timestamp(microseconds: Sys.wallMicroseconds())
        #expect(pause > 200 && pause < 361)
    }

    @Test("a node that is no worker shows what the jobs wait for, and the time of the next probe")
    func elsewhere() throws {
        let worker = try TestNode(database.url, slots: 0)
        defer { worker.store.stop() }
        let api = try TestNode(database.url, isWorker: false)
        defer { api.store.stop() }
        let job = try api.submit(newJob(host: "away.example")).id
        var connection = try Connection(url: database.url)
        try connection.execute(
            script: """
                INSERT INTO hosts (origin, unreachable, is_awaited, due_at)
                VALUES ('https://away.example:443', 'could_not_connect', true, now() + interval '1 hour');
                NOTIFY ferry, 'hosts'
                """)
        try eventually("it says so") {
            let reason = WaitingReason(try api.job(job).get().record, queue: api.store.queueConditions)
            return reason?.code == .connectivity && reason?.nextCheckAt != nil
        }
        #expect(api.store.metrics.hostsUnreachable == 1)
        let health = api.store.hostState.health
        eventually("nothing piles up that nobody takes") { health.messages.count == 0 }
    }

    @Test("a queued job whose cancellation was requested is leased and ends")
    func cancelled() throws {
        let node = try TestNode(database.url, slots: 2, prober: ScriptedProber())
        defer { node.store.stop() }
        _ = try away(node)
        let job = newJob(host: "away.example")
        _ = try node.submit([job]).get()
        try eventually("it waits") { try node.job(job.id).get().record.state == .waiting }
        var connection = try Connection(url: database.url)
        try connection.execute(
            script: """
                UPDATE jobs SET state = 'queued', waiting_for = NULL, cancel_requested = true
                WHERE attempt = 0;
                UPDATE job_counts SET queued = queued + 1, waiting = waiting - 1
                WHERE shard = (SELECT min(shard) FROM job_counts);
                NOTIFY ferry, 'work'
                """)
        node.waitUntilFinished(job.id)
        #expect(try node.job(job.id).get().record.state == .cancelled)
    }

    @Test("a job waits for its host unless it does not want to or has another way")
    func waits() throws {
        var specs = [newJob().spec, newJob().spec, newJob().spec, newJob().spec, JobSpec()]
        specs[1].schedule.waitsForConnectivity = false
        specs[2].mirrors = ["https://b.example/a"]
        try proxied(&specs[3])
        #expect(specs.map(\.awaitsHost) == [true, false, false, false, false])
    }
}
