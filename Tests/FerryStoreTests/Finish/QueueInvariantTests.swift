import FerryCore
import Postgres
import Synchronization
import Sys
import TestSupport
import TestThreads
import Testing

@testable import FerryStore

/// Invariants of the simulated scheduler, on three nodes and a real PostgreSQL.
@Suite("Invariants of the queue", .onOwnThread)
struct QueueInvariantTests {
    private static let limited = "https://limited.example.org:443"
    private static let paused = "https://paused.example.org:443"
    private static let workerCount = 3

    let database: TestDatabase

    init() throws { database = try TestDatabase(template: template) }

    /// Record of the attempts that ran, in the order in which they began.
    private final class Record: Sendable {
        private struct State {
            var begun: [Attempt] = []
            var running: [String: Int] = [:]
            var most: [String: Int] = [:]
        }
        private let state = Mutex(State())

        func begin(_ attempt: Attempt) {
            state.withLock { state in
                state.begun.append(attempt)
                let count = state.running[attempt.origin, default: 0] + 1
                state.running[attempt.origin] = count
                state.most[attempt.origin] = max(count, state.most[attempt.origin, default: 0])
            }
        }

        func end(_ attempt: Attempt) { state.withLock { $0.running[attempt.origin, default: 0] -= 1 } }
        var begun: [Attempt] { state.withLock { $0.begun } }
        func most(_ origin: String) -> Int { state.withLock { $0.most[origin, default: 0] } }
    }

    private func configure(_ api: TestNode, _ session: String, weight: Double) throws {
        var configuration = SessionConfiguration()
        configuration.weight = weight
        configuration.connectionsPerHostMax = nil
        let draft = SessionDraft(configuration: configuration, secrets: JobSecrets(), sealedSecrets: nil)
        _ = try wait {
            api.store.sessions.putSession(
                SessionKey(tenant: "acme", name: session), draft, if: .none, reply: $0)
        }.get()
    }

    /// Everything that is to run; what can never run is left out.
    private func submitAll(_ api: TestNode) throws -> (all: [NewJob], urgent: Set<JobID>) {
        let now = Timestamp(microseconds: Sys.wallMicroseconds())
        // What can never begin comes first, and so does what is in no hurry at all.
        let stuck = (0..<600).map { _ in newJob(session: "one", host: "paused.example.org") }
        var jobs = (0..<5).map { _ in newJob(session: "three", priority: 0, serviceType: .background) }
        jobs += (0..<600).map { _ in newJob(session: "one") }
        jobs += (0..<1_800).map { _ in newJob(session: "three") }
        jobs += (0..<60).map { newJob(session: $0 % 2 == 0 ? "one" : "three", host: "limited.example.org") }
        let urgent = (0..<20).map {
            newJob(session: "three", deadlineAt: now + 3_600 + Double($0))
        }
        jobs += urgent
        let all = stuck + jobs
        for start in stride(from: 0, to: all.count, by: 500) {
            _ = try api.submit(Array(all[start..<min(start + 500, all.count)])).get()
        }
        return (jobs, Set(urgent.map(\.id)))
    }

    @Test("three nodes keep weights, limits and deadlines, and every job runs")
    func laws() throws {
        let api = try TestNode(database.url, isWorker: false)
        defer { api.store.stop() }
        try configure(api, "one", weight: 1)
        try configure(api, "three", weight: 3)
        try api.changeHost(Self.paused, #"{"paused":true}"#, known: [api])
        try api.changeHost(Self.limited, #"{"maximum_connections":2}"#, known: [api])
        let (jobs, urgent) = try submitAll(api)
        let record = Record()
        let ending = Mailbox<(TestNode, Attempt)>()
        let workers = try (0..<Self.workerCount).map { _ in
            try TestNode(database.url, slots: 6) { $0.heldSeconds = 300 }
        }
        defer { workers.forEach { $0.store.stop() } }
        let seen = Mutex<Set<JobID>>([])
        for worker in workers {
            let take: @Sendable (Attempt) -> Void = { attempt in
                guard seen.withLock({ $0.insert(attempt.job).inserted }) else { return }
                record.begin(attempt)
                ending.send((worker, attempt))
            }
            worker.runner.react(take)
            // Those that began before somebody listened.
            worker.runner.begun.take().forEach(take)
        }
        var random = SeededRandom(seed: 11)
        var open: [(TestNode, Attempt)] = []
        var hasMore = false
        var endedCount = 0
        let deadline = Sys.monotonicNanoseconds() + 120_000_000_000
        while endedCount < jobs.count && Sys.monotonicNanoseconds() < deadline {
            open.append(contentsOf: ending.wait(milliseconds: hasMore ? 0 : 1_000))
            // The first of the limited host goes on until a second runs beside it, else none ever might.
            let isHeld = record.most(Self.limited) < 2
            let ready = open.indices.filter { !isHeld || open[$0].1.origin != Self.limited }
            hasMore = ready.count > 1
            guard !ready.isEmpty else { continue }
            let (worker, attempt) = open.remove(at: ready[Int(random.next() % UInt64(ready.count))])
            record.end(attempt)
            worker.store.dispatcher.record(result(attempt, success))
            endedCount += 1
        }
        let begun = record.begun
        #expect(endedCount == jobs.count, "nothing starves")
        #expect(Set(begun.map(\.job)) == Set(jobs.map(\.id)), "and what is paused does not begin")
        #expect(record.most(Self.limited) == 2)
        // Both sessions have jobs for all of that time.
        let head = begun.prefix(1_600)
        let share = Double(head.count { $0.spec.session == "one" }) / Double(head.count)
        #expect(abs(share - 0.25) <= 0.05 * 0.25 + 0.01, "\(share)")
        // As many as one claim of each node may take at once come before the last of them at most.
        let ofThree = begun.filter { $0.spec.session == "three" }
        let last = ofThree.lastIndex { urgent.contains($0.job) } ?? .max
        #expect(last < urgent.count + Self.workerCount * 100, "\(last)")
        // What is in no hurry comes after everything that was, and comes.
        let lazy = begun.lastIndex { $0.spec.schedule.networkServiceType == .background } ?? .max
        #expect(lazy < begun.count && lazy > begun.count / 2)
    }
}
