import FerryCore
import FerryScheduler
import Postgres
import Synchronization
import Sys
import TestSupport
import TestThreads
import Testing

@testable import FerryStore

@Suite("Request rates of hosts", .onOwnThread)
struct RequestRateTests {
    private static let host = "counting.example.org"
    private static let origin = "https://counting.example.org:443"

    let database: TestDatabase

    init() throws { database = try TestDatabase(template: template) }

    @Test("at one request per hour one job begins; the others name the rate, and begin without it")
    func slow() throws {
        let node = try TestNode(database.url, slots: 8)
        defer { node.store.stop() }
        try node.changeHost(Self.origin, #"{"max_requests_per_second":0.001}"#, known: [node])
        let jobs = try (0..<4).map { _ in try node.submit(newJob(host: Self.host)).id }
        #expect(try node.attempt().job == jobs[0])
        let free = try node.submit(newJob(host: "free.example.org"))
        #expect(try node.attempt().job == free.id, "others are not held up")
        for job in jobs.dropFirst() {
            let record = try node.job(job).get().record
            let reason = WaitingReason(record, queue: node.store.queueConditions)
            #expect(record.state == .queued && reason?.code == .hostRate)
            #expect(reason?.detail.contains("0.001 requests per second") == true)
        }
        try node.changeHost(Self.origin, #"{"max_requests_per_second":null}"#, known: [node])
        let rest = try (0..<3).map { _ in try node.attempt().job }
        #expect(Set(rest) == Set(jobs.dropFirst()))
    }

    @Test("two nodes together never exceed the rate, and use all of it")
    func shared() throws {
        let rate = 40.0
        let nodes = try (0..<2).map { _ in try TestNode(database.url, slots: 16) }
        defer { nodes.forEach { $0.store.stop() } }
        try nodes[0].changeHost(Self.origin, #"{"max_requests_per_second":\#(rate)}"#, known: nodes)
        let jobs = (0..<60).map { _ in newJob(host: Self.host) }
        let begun = Mutex<[Int64]>([])
        for node in nodes {
            node.runner.react { attempt in
                begun.withLock { $0.append(Sys.monotonicNanoseconds()) }
                node.store.dispatcher.record(result(attempt, success))
            }
        }
        let start = Sys.monotonicNanoseconds()
        _ = try nodes[1].submit(jobs).get()
        eventually("all have begun") { begun.withLock { $0.count } == jobs.count }
        for (index, instant) in begun.withLock({ $0.sorted() }).enumerated() {
            let allowed = 1.5 + rate * Double(instant - start) / 1e9
            #expect(Double(index + 1) <= allowed + 0.01)
        }
    }

    @Test("sessions share a rate, whichever came first")
    func fair() throws {
        let node = try TestNode(database.url, slots: 16)
        defer { node.store.stop() }
        try node.changeHost(Self.origin, #"{"max_requests_per_second":0.001}"#, known: [node])
        let sessions = Mutex<[String]>([])
        node.runner.react { attempt in
            sessions.withLock { $0.append(attempt.spec.session) }
            node.store.dispatcher.record(result(attempt, success))
        }
        _ = try node.submit((0..<60).map { _ in newJob(session: "first", host: Self.host) }).get()
        _ = try node.submit((0..<60).map { _ in newJob(session: "second", host: Self.host) }).get()
        try node.changeHost(Self.origin, #"{"max_requests_per_second":40}"#, known: [node])
        eventually("half of them have begun") { sessions.withLock { $0.count } >= 60 }
        let firstCount = sessions.withLock { $0.prefix(60).count { $0 == "first" } }
        #expect(firstCount >= 27 && firstCount <= 33, "\(firstCount)")
    }

    @Test("further connections of a transfer take tokens of the rate")
    func connections() throws {
        let node = try TestNode(database.url, slots: 4)
        defer { node.store.stop() }
        try node.changeHost(Self.origin, #"{"max_requests_per_second":0.001}"#, known: [node])
        _ = try node.submit(newJob(host: "free.example.org"))
        let attempt = try node.attempt()
        let answers = Mailbox<ConnectionGrant>()
        let ask: () throws -> ConnectionGrant = {
            let answer = node.store.connections.ask(attempt, for: attempt.scope(at: Self.origin)) {
                answers.send($0)
            }
            if let answer { return answer }
            return try #require(answers.wait(milliseconds: 60_000).first)
        }
        #expect(try ask() == .granted)
        let hold = HostHold(origin: Self.origin, reason: .hostRate(0.001, of: .origin))
        #expect(try ask() == .refused(hold))
        #expect(try hold.error.read().hold?.choice == .hostRate)
        let job = try node.submit(newJob(host: Self.host)).id
        let free = try node.submit(newJob(host: "free.example.org"))
        #expect(try node.attempt().job == free.id)
        #expect(try node.job(job).get().record.state == .queued)
    }

    @Test("a host that refuses most requests gets as many as it answered, on every node")
    func learned() throws {
        let node = try TestNode(database.url, slots: 64)
        defer { node.store.stop() }
        let count = Mutex(0)
        node.runner.react { attempt in
            // One in ten.
            let isAnswered = count.withLock { count in
                count += 1
                return count % 10 == 0
            }
            node.store.dispatcher.record(isAnswered ? result(attempt, success) : Self.refused(attempt))
        }
        let jobs = (0..<3_000).map { _ in
            newJob(host: Self.host, attemptCountMax: 1_000, retryDelay: 0.2)
        }
        for start in stride(from: 0, to: jobs.count, by: 500) {
            _ = try node.submit(Array(jobs[start..<start + 500])).get()
        }
        eventually("it has a pace") {
            node.hosts.limit(at: Self.origin, HostScope(tenant: "acme", path: "/a"))?.requestRate != nil
        }
        let record = try wait { node.store.hostCommands.host(Self.origin, reply: $0) }.get()
        #expect(record.state == .normal && record.scopes.map(\.path) == ["/a"])
        #expect(record.scopes.first?.requestRateLimit != nil)
        let decisions = try record.decisions.map { try JSON.parse($0) }
        #expect(decisions.contains { $0["path"]?.string == "/a" && $0["request_rate_after"]?.double != nil })
    }

    private static func refused(_ attempt: Attempt) -> AttemptResult {
        AttemptResult(
            attempt: attempt,
            outcome: .failed(
                TransferError(
                    .unacceptableStatus, "The server answered with status 503.", phase: .waiting,
                    isRetryable: true), retryAfter: nil),
            response: nil, bytesReceived: 0, bytesSent: 0,
            hostResponse: HostResponse(job: attempt.job, scope: attempt.scope, status: 503, retryAfter: nil))
    }
}
