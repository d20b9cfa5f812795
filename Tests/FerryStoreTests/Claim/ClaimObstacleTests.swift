import FerryCore
import FerryScheduler
import FerryStore
import Postgres
import Sys
import TestSupport
import TestThreads
import Testing

/// Everything that keeps a queued row from being claimed: what claim_jobs.sql, read_permits.sql,
/// scan_claim_queues.sql and lock_unreachable_jobs.sql ask, and what keeps a node from asking. And what a job
/// that was put off waits for.
@Suite("Reasons why jobs wait", .onOwnThread)
struct ClaimObstacleTests {
    let database: TestDatabase
    /// Its only slot is in use, unless a test says otherwise.
    let node: TestNode

    init() throws {
        database = try TestDatabase(template: template)
        node = try TestNode(database.url, slots: 1)
    }

    private func fill() throws -> Attempt {
        _ = try node.submit(newJob(session: "first"))
        return try node.attempt()
    }

    private func reason(_ job: JobID, on other: TestNode? = nil) throws -> WaitingReason? {
        let shown = other ?? node
        return WaitingReason(try shown.job(job).get().record, queue: shown.store.queueConditions)
    }

    private func expect(_ code: WaitingReason.Code, of job: JobID, on other: TestNode? = nil) throws {
        try eventually("\(code.rawValue)") { try reason(job, on: other)?.code == code }
    }

    @Test(
        "a limit of a host or session, a full disk and operator settings are named as the reason")
    func queued() throws {
        defer { node.store.stop() }
        _ = try fill()
        let free = try node.submit(newJob()).id
        try expect(.noFreeSlot, of: free)
        let patches: [(String, String, WaitingReason.Code)] = [
            ("limited.example", #"{"maximum_connections":3}"#, .hostLimit),
            ("counted.example", #"{"max_requests_per_second":3}"#, .hostRate),
            ("paused.example", #"{"paused":true}"#, .hostPaused),
            ("backed.example", #"{"backoff_until":"2099-01-01T00:00:00Z"}"#, .hostBackoff),
        ]
        for (host, patch, code) in patches {
            try node.changeHost("https://\(host):443", patch, known: [node])
            try expect(code, of: node.submit(newJob(host: host)).id)
        }
        node.downloads.set(.noSpace)
        try expect(.storageLow, of: free)
        node.downloads.set(.unwritable)
        try expect(.storageUnavailable, of: free)
        node.downloads.set(nil)
        _ = try wait { node.store.operators.pause(true, reply: $0) }.get()
        try expect(.paused, of: free)
    }

    @Test("a queued job names the limit of its session only while the session has that many connections")
    func sessionLimit() throws {
        defer { node.store.stop() }
        var configuration = SessionConfiguration()
        configuration.connectionsPerHostMax = 1
        let draft = SessionDraft(configuration: configuration, secrets: JobSecrets(), sealedSecrets: nil)
        let key = SessionKey(tenant: "acme", name: "narrow")
        _ = try wait { node.store.sessions.putSession(key, draft, if: .none, reply: $0) }.get()
        let other = try fill()
        let job = try node.submit(newJob(session: "narrow")).id
        #expect(try reason(job)?.code == .noFreeSlot, "another session holds the only slot")
        let listed = try wait { reply in
            node.store.jobs.jobs(JobQuery(tenant: "acme"), reply: reply)
        }.get()
        #expect(listed.records.first { $0.id == job }?.sessionConnectionCount == 0)
        node.end(other, success)
        #expect(try node.attempt().job == job)
        let next = try node.submit(newJob(session: "narrow")).id
        try expect(.sessionLimit, of: next)
    }

    @Test("a queued job of an unreachable origin has that as its reason")
    func away() throws {
        defer { node.store.stop() }
        _ = try fill()
        let job = try node.submit(newJob(host: "away.example")).id
        try expect(.noFreeSlot, of: job)
        var connection = try Connection(url: database.url)
        try connection.execute(
            script: """
                INSERT INTO hosts (origin, unreachable, is_awaited)
                VALUES ('https://away.example:443', 'could_not_connect', true)
                """)
        try expect(.connectivity, of: job)
    }

    @Test("a job for another node names that node, and when others may run it")
    func home() throws {
        defer { node.store.stop() }
        let job = try node.submit(newJob(kind: .upload)).id
        let attempt = try node.attempt()
        let other = try TestNode(database.url, slots: 1)
        defer { other.store.stop() }
        _ = try other.submit(newJob(session: "busy"))
        let busy = try other.attempt()
        node.store.dispatcher.record(
            AttemptResult(
                attempt: attempt, outcome: .released, response: nil, bytesReceived: 0, bytesSent: 0,
                home: other.id))
        try expect(.homeNode, of: job)
        let named = try #require(try reason(job))
        #expect(named.detail.contains("node test") && named.nextCheckAt != nil)
        _ = try wait { other.store.operators.drain(other.id, true, reply: $0) }.get()
        try eventually("it is drained") { try reason(job)?.detail.contains("drained") == true }
        // Nobody has heard of it for long.
        var connection = try Connection(url: database.url)
        other.store.dispatcher.record(result(busy, success))
        other.store.stop()
        try connection.execute(script: "UPDATE nodes SET heartbeat_at = now() - interval '1 hour'")
        #expect(try node.attempt().job == job)
    }

    @Test("a job that another origin holds up names the limit there")
    func held() throws {
        defer { node.store.stop() }
        let origin = "https://other.example:443"
        let reasons: [(QueueReason, WaitingReason.Code)] = [
            (.hostPaused, .hostPaused), (.hostBackoff(until: .distantFuture, of: .origin), .hostBackoff),
            (.hostLimit(3, of: .origin), .hostLimit), (.hostRate(3, of: .origin), .hostRate),
            (.sessionLimit(2), .sessionLimit),
            (.noFreeSlot, .hostLimit),
        ]
        let job = try node.submit(newJob()).id
        for (held, code) in reasons {
            let attempt = try node.attempt()
            let hold = HostHold(origin: origin, reason: held)
            node.store.dispatcher.record(result(attempt, .putOff(hold)))
            try expect(code, of: job)
            let waits = try #require(try reason(job))
            #expect(waits.detail.contains(origin) && waits.nextCheckAt != nil)
            var connection = try Connection(url: database.url)
            try connection.execute(
                script: "UPDATE jobs SET next_attempt_at = now(); NOTIFY ferry, 'work'")
        }
    }

    @Test("without a worker, that is the reason")
    func noWorker() throws {
        node.store.stop()
        let other = try TestDatabase(template: template)
        let api = try TestNode(other.url, isWorker: false)
        defer { api.store.stop() }
        try expect(.noWorker, of: api.submit(newJob()).id, on: api)
    }
}
