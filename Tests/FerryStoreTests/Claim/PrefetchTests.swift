import FerryCore
import Postgres
import Synchronization
import Sys
import TestSupport
import TestThreads
import Testing

@testable import FerryStore

@Suite("Prefetched jobs", .onOwnThread)
struct PrefetchTests {
    let database: TestDatabase

    init() throws { database = try TestDatabase(template: template) }

    private static let slotCount = 4
    private static let origin = "https://example.org:443"

    /// A node on which attempts have ended fast and then end no more, so that its slots are taken and it
    /// holds some. `seconds`: for how long it does. `listens`: whether it hears its own notifications.
    private func busyNode(
        seconds: Double = 300, queued: Int = 40, listens: Bool = true
    ) throws -> (node: TestNode, running: [Attempt], held: [JobID]) {
        let node = try TestNode(
            database.url, slots: Self.slotCount, leaseSeconds: 300
        ) {
            $0.heldSeconds = seconds
            $0.listens = listens
        }
        let fast = (0..<300).map { _ in newJob() }
        // None of these ends.
        let slow = (0..<queued).map { _ in newJob(priority: 0.1, metadata: [.init("slow", "1")]) }
        let running = Mailbox<Attempt>()
        node.runner.react { [dispatcher = node.store.dispatcher] attempt in
            if attempt.spec.metadata.isEmpty {
                dispatcher.record(result(attempt, success))
            } else {
                running.send(attempt)
            }
        }
        _ = try node.submit(fast + slow).get()
        var all: [Attempt] = []
        eventually("the slots are taken") {
            all += running.take()
            return all.count == Self.slotCount
        }
        guard seconds > 1 else { return (node, all, []) }
        try eventually("what has ended is committed, and some are held") {
            let held = heldJobs(node)
            return try node.status().running == Int64(Self.slotCount + held.count) && !held.isEmpty
        }
        return (node, all, heldJobs(node))
    }

    private func heldJobs(_ node: TestNode) -> [JobID] {
        let held = node.store.queueState.held
        return held.all.map(\.attempt.job)
    }

    /// Number of running attempts, and its maximum.
    private final class Gauge: Sendable {
        let begun = Mailbox<Attempt>()
        private let counts = Mutex((live: 0, most: 0))
        var most: Int { counts.withLock { $0.most } }

        init(_ node: TestNode) {
            node.runner.react { [self] attempt in
                counts.withLock { $0 = ($0.live + 1, max($0.most, $0.live + 1)) }
                begun.send(attempt)
            }
        }

        func end(_ attempt: Attempt, _ node: TestNode) {
            counts.withLock { $0.live -= 1 }
            node.store.dispatcher.record(result(attempt, success))
        }
    }

    /// Ends attempts one after another, and returns the jobs that begin, in order.
    private func serve(_ node: TestNode, _ running: [Attempt], until last: JobID) throws -> [JobID] {
        let begun = Mailbox<Attempt>()
        node.runner.react { begun.send($0) }
        var (order, waiting): ([JobID], [Attempt]) = ([], running)
        while order.last != last {
            try #require(!waiting.isEmpty)
            node.store.dispatcher.record(result(waiting.removeFirst(), success))
            let next = begun.wait(milliseconds: 60_000)
            order += next.map(\.job)
            waiting += next
        }
        return order
    }

    @Test("with prefetched jobs no more transfers run than slots, each job runs once, and no lease is left")
    func slots() throws {
        let node = try TestNode(database.url, slots: Self.slotCount)
        defer { node.store.stop() }
        let gauge = Gauge(node)
        let jobs = (0..<400).map { _ in newJob() }
        _ = try node.submit(jobs).get()
        var begun: [JobID] = []
        var sawHeld = false
        while begun.count < jobs.count {
            let next = gauge.begun.wait(milliseconds: 60_000)
            try #require(!next.isEmpty)
            for attempt in next {
                begun.append(attempt.job)
                sawHeld = sawHeld || node.store.queueState.held.count > 0
                gauge.end(attempt, node)
            }
        }
        #expect(Set(begun) == Set(jobs.map(\.id)) && begun.count == jobs.count && sawHeld)
        #expect(gauge.most <= Self.slotCount)
        eventually("every slot and lease is free") {
            node.slots.busyCount == 0 && node.slots.leaseCount == 0
        }
        #expect(node.store.metrics.fencedResults == 0)
    }

    @Test("no job is prefetched while jobs end slowly")
    func slow() throws {
        let node = try TestNode(database.url, slots: Self.slotCount)
        defer { node.store.stop() }
        _ = try node.submit((0..<20).map { _ in newJob() }).get()
        var count: Int64 = 0
        for _ in 0..<3 {
            for attempt in try node.attempts(Self.slotCount) {
                count += 1
                let start = monotonicNanoseconds()
                node.store.dispatcher.record(result(attempt, success))
                // As the dispatcher knows it: it takes that time as what a commit costs.
                eventually("it is committed") { node.store.metrics.recordedResults >= count }
                // Many times a commit, however busy the machine is.
                let commit = Int32((monotonicNanoseconds() - start) / 1_000_000) + 1
                _ = Mailbox<Int>().wait(milliseconds: 5 * commit)
            }
        }
        #expect(try node.status().running == Int64(Self.slotCount))
        #expect(node.store.queueState.held.count == 0)
    }

    @Test("a job that was prefetched for too long is queued again, without an attempt being used up")
    func patience() throws {
        let (node, running, _) = try busyNode(seconds: 0.05)
        defer { node.store.stop() }
        try eventually("only what has a slot is leased") {
            let status = try node.status()
            return status.running == Int64(Self.slotCount) && node.slots.leaseCount == Self.slotCount
        }
        let slow = Set(running.map(\.job))
        node.runner.react { [dispatcher = node.store.dispatcher] attempt in
            #expect(attempt.failedAttemptCount == 0 && !slow.contains(attempt.job))
            dispatcher.record(result(attempt, success))
        }
        for attempt in running { node.store.dispatcher.record(result(attempt, success)) }
        try eventually("all have ended") {
            let status = try node.status()
            return status.running == 0 && status.queued == 0
        }
        #expect(node.store.metrics.fencedResults == 0)
    }

    @Test("a prefetched job is cancelled or suspended at once")
    func stop() throws {
        let (node, running, held) = try busyNode()
        defer { node.store.stop() }
        try #require(held.count >= 2)
        let slots = node.slots.busyCount
        _ = try wait { node.store.jobCommands.cancel(held[0], tenant: "acme", reply: $0) }.get()
        _ = try wait { node.store.jobCommands.suspend(held[1], tenant: "acme", reply: $0) }.get()
        try eventually("they are") {
            try node.job(held[0]).get().record.state == .cancelled
                && node.job(held[1]).get().record.state == .suspended
        }
        #expect(node.slots.busyCount == slots)
        node.runner.react { #expect($0.job != held[0] && $0.job != held[1]) }
        node.store.dispatcher.record(result(running[0], success))
        node.waitUntilFinished(running[0].job)
    }

    @Test("a prefetched job begins with the rate and the URL of a later edit")
    func rate() throws {
        let (node, running, held) = try busyNode(listens: false)
        defer { node.store.stop() }
        let edited = wait { reply in
            node.store.jobCommands.edit(
                held[0], tenant: "acme",
                { draft throws(InvalidFields) in
                    var draft = draft
                    draft.spec.bytesPerSecondMax = 4_096
                    draft.spec.request = .init(url: "https://new.example/f", method: "GET")
                    return draft
                }, reply: reply)
        }
        _ = try edited.get()
        // The runner does not know it yet.
        #expect(node.runner.edits.take().count == 1)
        let begun = Signal<Attempt>()
        node.runner.react { begun.fire($0) }
        node.store.dispatcher.record(result(running[0], success))
        let next = try #require(begun.wait().first)
        #expect(next.job == held[0] && next.spec.bytesPerSecondMax == 4_096)
        #expect(next.spec.request.url == "https://new.example/f")
    }

    @Test("a rate that changes before the runner has taken the attempt is applied")
    func earlyRate() throws {
        let node = try TestNode(database.url) { $0.listens = false }
        defer { node.store.stop() }
        node.runner.react { [store = node.store] attempt in
            // The runner has not taken it yet.
            let edited = wait { reply in
                store.jobCommands.edit(
                    attempt.job, tenant: "acme",
                    { draft throws(InvalidFields) in
                        var draft = draft
                        draft.spec.bytesPerSecondMax = 4_096
                        return draft
                    }, reply: reply)
            }
            if case .failure(let error) = edited { Issue.record("\(error)") }
        }
        let job = try node.submit(newJob()).id
        var changes: [(JobID, AttemptEdit)] = []
        eventually("it is changed by the edit, and once it has begun") {
            changes += node.runner.edits.take()
            return changes.count == 2
        }
        #expect(changes.allSatisfy { $0.0 == job && $0.1.spec.bytesPerSecondMax == 4_096 })
    }

    @Test("a prefetched job that is suspended keeps the bytes of earlier attempts")
    func bytes() throws {
        let (node, _, held) = try busyNode()
        defer { node.store.stop() }
        let job = held[0]
        var connection = try Connection(url: database.url)
        try connection.execute(
            script: "UPDATE jobs SET has_bytes = true WHERE id = '\(job.uuidText)'")
        _ = try wait { node.store.jobCommands.suspend(job, tenant: "acme", reply: $0) }.get()
        try eventually("it is") { try node.job(job).get().record.state == .suspended }
        #expect(try node.job(job).get().hasBytes)
        let record = try wait {
            node.store.jobCommands.cancel(job, tenant: "acme", keepsBytes: true, reply: $0)
        }.get()
        #expect(record.resumeData == "sealed \(job)")
    }

    @Test("a request that must not be sent twice is leased only when a slot is free")
    func unrepeatable() throws {
        let node = try TestNode(database.url, slots: Self.slotCount)
        defer { node.store.stop() }
        let ending = Mailbox<Attempt>()
        node.runner.react { ending.send($0) }
        let repeatable = (0..<400).map { _ in newJob() }
        let posts = (0..<200).map { _ in post(newJob(kind: .data, priority: 0.1)) }
        let later = (0..<100).map { _ in newJob(priority: 0) }
        _ = try node.submit(repeatable + posts + later).get()
        var (endedCount, sawHeld) = (0, false)
        while endedCount < 700 {
            let begun = ending.wait(milliseconds: 120_000)
            try #require(!begun.isEmpty)
            endedCount += begun.count
            for attempt in begun {
                sawHeld = sawHeld || node.store.queueState.held.count > 0
                node.store.dispatcher.record(result(attempt, success))
            }
        }
        #expect(sawHeld)
        try eventually("all ends are committed") { try node.status().running == 0 }
        var connection = try Connection(url: database.url)
        let posted = try connection.execute(
            Statement(
                "count_posts",
                "SELECT count(*), sum(attempt) FROM finished_jobs WHERE kind = 'data'"))
        #expect(posted.int64(0, 0) == 200 && posted.int64(0, 1) == 200)
        #expect(node.store.metrics.fencedResults == 0)
    }

    private func post(_ job: NewJob) -> NewJob {
        var spec = job.spec
        spec.request.method = "POST"
        return job.with(spec)
    }

    @Test("an urgent job waits for prefetched jobs and no others")
    func urgent() throws {
        let (node, running, held) = try busyNode()
        defer { node.store.stop() }
        #expect(held.count <= Self.slotCount)
        let urgent = newJob(priority: 1, serviceType: .responsiveData)
        #expect(try node.submit(urgent).state == .queued)
        let order = try serve(node, running, until: urgent.id)
        #expect(order.count <= Self.slotCount + 1 && Array(order.prefix(held.count)) == held)
    }

    @Test("a new limit of an origin gives back prefetched jobs")
    func limits() throws {
        let (node, running, held) = try busyNode()
        defer { node.store.stop() }
        try node.changeHost(Self.origin, #"{"backoff_until":"2099-01-01T00:00:00Z"}"#, known: [node])
        node.runner.react { Issue.record("\($0.job) has begun") }
        for attempt in running { node.store.dispatcher.record(result(attempt, success)) }
        try eventually("they are queued again") {
            let states = try held.map { try node.job($0).get().record.state }
            return states.allSatisfy { $0 == .queued } && node.slots.leaseCount == 0
        }
    }

    @Test("jobs under a limit are not prefetched")
    func limited() throws {
        let node = try TestNode(database.url, slots: Self.slotCount)
        defer { node.store.stop() }
        try node.changeHost(Self.origin, #"{"maximum_connections":3}"#, known: [node])
        let gauge = Gauge(node)
        _ = try node.submit((0..<200).map { _ in newJob() }).get()
        var endedCount = 0
        while endedCount < 200 {
            #expect(node.store.queueState.held.count == 0)
            let next = gauge.begun.wait(milliseconds: 60_000)
            try #require(!next.isEmpty)
            for attempt in next { gauge.end(attempt, node) }
            endedCount += next.count
        }
        #expect(gauge.most == 3)
    }

    @Test("a pause gives back prefetched jobs at once")
    func drain() throws {
        let (node, running, held) = try busyNode()
        _ = try wait { node.store.operators.pause(true, reply: $0) }.get()
        node.runner.react { Issue.record("\($0.job) has begun") }
        node.store.dispatcher.record(result(running[0], success))
        try eventually("they are queued again") {
            let records = try held.map { try node.job($0).get().record }
            return records.allSatisfy { $0.state == .queued && $0.failedAttemptCount == 0 && $0.node == nil }
        }
        #expect(node.store.queueState.held.count == 0)
        node.store.stop()
    }

    @Test("a process that ends gives back prefetched jobs")
    func ends() throws {
        let (node, _, held) = try busyNode()
        node.store.stop()
        let api = try TestNode(database.url, isWorker: false)
        defer { api.store.stop() }
        for job in held {
            let record = try api.job(job).get().record
            #expect(record.state == .queued && record.failedAttemptCount == 0 && record.storedError == nil)
        }
    }

    @Test("prefetched jobs of a killed process begin again")
    func killed() throws {
        let (killed, _, lost) = try busyNode()
        try #require(!lost.isEmpty)
        // As a process that is gone: the next one of the same node takes everything back.
        let next = try TestNode(database.url, slots: 100, id: killed.id)
        let begun = Mailbox<JobID>()
        next.runner.react { begun.send($0.job) }
        var all: Set<JobID> = []
        eventually("what was held begins") {
            all.formUnion(begun.take())
            all.formUnion(next.runner.begun.take().map(\.job))
            return all.isSuperset(of: lost)
        }
        next.store.stop()
        killed.store.stop()
    }
}
