import FerryCore
import FerryStore
import Postgres
import Synchronization
import Sys
import TestSupport
import TestThreads
import Testing

@Suite("Bulk operations", .onOwnThread)
struct BulkOperationTests {
    let database: TestDatabase

    init() throws { database = try TestDatabase(template: template) }

    /// One that accepts jobs and runs none, so that they stay queued.
    private func keeper() throws -> TestNode { try TestNode(database.url, isWorker: false) }

    @Test("a cancellation by filter ends the jobs that match, with their events, and no others")
    func cancel() throws {
        let node = try keeper()
        defer { node.store.stop() }
        let tagged = (0..<5).map { _ in newJob(metadata: [.init("customer", "42")]) }
        let others = [newJob(metadata: [.init("customer", "43")]), newJob()]
        let strange = newJob(tenant: "other", metadata: [.init("customer", "42")])
        _ = try node.submit(tagged + others).get()
        _ = try node.submit([strange]).get()
        let selection = JobFilter.only(\.metadata, [.init("customer", "42")])
        #expect(try node.count(selection) == 5)
        let ended = try node.run(.cancel, selection)
        #expect(ended.state == .succeeded && ended.command == .cancel && ended.finishedAt != nil)
        #expect(ended.counts.matched == 5 && ended.counts.changed == 5 && ended.counts.reasons.isEmpty)
        #expect(ended.counts.examined >= 5)
        #expect(ended.filter?.metadata == [.init("customer", "42")] && ended.identifierCount == nil)
        for job in tagged { #expect(try node.state(job) == .cancelled) }
        for job in others { #expect(try node.state(job) == .queued) }
        #expect(try node.job(strange.id, tenant: "other").get().record.state == .queued)
        try eventually("the events of the ends are in the log") {
            try EventLog(database.url).events.count { $0.record.type == .jobCancelled } == 5
        }
        #expect(try node.status().queued == 3)
        // Once more: the jobs have ended.
        let again = try node.run(.cancel, selection)
        #expect(again.state == .succeeded && again.counts.changed == 0)
        #expect(again.counts.reasons == [.invalidState: 5])
    }

    @Test("a cancellation stops running transfers on another node, and keeps their bytes if it says so")
    func cancelRunning() throws {
        let (api, worker) = (try keeper(), try TestNode(database.url))
        defer {
            api.store.stop()
            worker.store.stop()
        }
        let jobs = [newJob(), newJob()]
        _ = try worker.submit(jobs).get()
        let attempts = try worker.attempts(2)
        let selection = BulkSelection.jobs(jobs.map(\.id).sorted(by: >))
        let started = try api.start(.cancel, selection, keepsBytes: true).get().record
        let ended = try api.end(of: started.id)
        #expect(ended.state == .succeeded && ended.counts.changed == 2 && ended.identifierCount == 2)
        eventually("the node that runs the jobs is told") {
            worker.runner.stops.withLock { stops in
                jobs.allSatisfy { stops[$0.id] == .cancelKeepingBytes }
            }
        }
        for attempt in attempts { worker.end(attempt, .cancelled) }
        try eventually("the jobs are cancelled") {
            try jobs.allSatisfy { try api.state($0) == .cancelled }
        }
    }

    @Test("suspension and resumption by identifiers count what does not allow them by reason")
    func suspendAndResume() throws {
        let node = try TestNode(database.url, slots: 1)
        defer { node.store.stop() }
        let posting = newJob(kind: .data, method: "POST")
        _ = try node.submit([posting]).get()
        let attempt = try node.attempt()
        let later = Timestamp(microseconds: Sys.wallMicroseconds() + 3_600_000_000)
        let (waiting, suspended) = (newJob(beginAt: later), newJob(beginAt: later))
        let dependent = newJob().with { spec in
            spec.schedule.dependencies = [.job(waiting.id)]
            spec.startsSuspended = true
        }
        _ = try node.submit([waiting, suspended, dependent]).get()
        _ = try wait { node.store.jobCommands.suspend(suspended.id, tenant: "acme", reply: $0) }.get()
        let unknown: JobID = TestNode.identifiers.make()
        let all = [posting.id, waiting.id, suspended.id, dependent.id, unknown].sorted(by: >)
        #expect(try node.count(.jobs(all)) == 4)
        let first = try node.run(.suspend, .jobs(all))
        #expect(first.state == .succeeded && first.identifierCount == 5 && first.counts.examined == 5)
        #expect(first.counts.matched == 4 && first.counts.changed == 1)
        #expect(first.counts.reasons == [.notRepeatable: 1, .invalidState: 2])
        #expect(try node.state(waiting) == .suspended)
        let second = try node.run(.resume, .jobs(all))
        #expect(second.counts.changed == 3 && second.counts.reasons == [.invalidState: 1])
        #expect(try node.job(waiting.id).get().record.nextAttemptAt == later)
        #expect(try node.job(dependent.id).get().record.waitingFor == .dependency)
        node.end(attempt, success)
    }

    @Test("a retry submits what the single retry does, once for each job")
    func retry() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let jobs = (0..<3).map { number in
            newJob(
                host: "fails.example", path: "\(number)", metadata: [.init("n", "\(number)")],
                attemptCountMax: 1)
        }
        let good = newJob(host: "fails.example")
        _ = try node.submit(jobs + [good]).get()
        for attempt in try node.attempts(4) {
            node.end(attempt, attempt.job == good.id ? success : failure(isRetryable: false))
        }
        try eventually("the jobs have failed") { try jobs.allSatisfy { try node.state($0) == .failed } }
        var filter = JobFilter()
        filter.states = [.failed]
        filter.place = HostReference("fails.example")
        let ended = try node.run(.retry, .filter(filter))
        #expect(ended.state == .succeeded && ended.counts.changed == 3 && ended.counts.matched == 3)
        let attempts = try node.attempts(3)
        #expect(Set(attempts.map(\.retryOf)) == Set(jobs.map(\.id)))
        for attempt in attempts {
            let old = try #require(jobs.first { $0.id == attempt.retryOf })
            #expect(attempt.spec.request.url == old.spec.request.url && attempt.job > old.id)
            #expect(attempt.spec.metadata == old.spec.metadata)
            #expect(attempt.traceparent?.contains(String(repeating: "a", count: 32)) == true)
            node.end(attempt, success)
        }
        // Once more: each has its retry, which has ended.
        let again = try node.run(.retry, .filter(filter))
        #expect(again.counts.changed == 0 && again.counts.reasons == [.alreadyRetried: 3])
        let whole = try node.run(.retry, JobFilter.only(\.place, HostReference("fails.example")))
        #expect(whole.counts.matched == 7 && whole.counts.changed == 4)
        for attempt in try node.attempts(4) { node.end(attempt, success) }
    }

    @Test("a retry waits while the tenant has too many unfinished jobs")
    func retryWithoutRoom() throws {
        let node = try TestNode(database.url) { $0.jobCountMax = 3 }
        defer { node.store.stop() }
        let jobs = (0..<3).map { _ in newJob(attemptCountMax: 1) }
        _ = try node.submit(jobs).get()
        for attempt in try node.attempts(3) { node.end(attempt, failure(isRetryable: false)) }
        try eventually("the jobs have failed") { try jobs.allSatisfy { try node.state($0) == .failed } }
        eventually("the tenant is counted") {
            if case .success = node.submit([newJob(), newJob()]) { true } else { false }
        }
        let running = try node.attempts(2)
        let started = try node.start(.retry, JobFilter.only(\.states, [.failed])).get().record
        for attempt in running { node.end(attempt, success) }
        let ended = try node.end(of: started.id)
        #expect(ended.state == .succeeded && ended.counts.changed == 3 && ended.counts.failed == 0)
        for attempt in try node.attempts(3) { node.end(attempt, success) }
    }

    @Test("an operation with a key is started once; another body with this key is refused")
    func idempotency() throws {
        let node = try keeper()
        defer { node.store.stop() }
        let first = try node.start(.cancel, .filter(JobFilter()), key: key("bulk")).get()
        let again = try node.start(.cancel, .filter(JobFilter()), key: key("bulk")).get()
        #expect(!first.isReplay && again.isReplay && again.record.id == first.record.id)
        let other = node.start(.cancel, .filter(JobFilter()), key: key("bulk", fingerprint: 2))
        guard case .failure(.idempotencyKeyReused) = other else {
            Issue.record("\(other)")
            return
        }
        _ = try node.end(of: first.record.id)
    }

    @Test("operations are listed newest first, and belong to their tenant")
    func list() throws {
        let node = try keeper()
        defer { node.store.stop() }
        let ids = try (0..<3).map { _ in try node.run(.suspend, .filter(JobFilter())).id }
        let page = try wait {
            node.store.bulkCommands.bulkOperations(tenant: "acme", before: ids[2], limit: 5, reply: $0)
        }.get()
        #expect(page.map(\.id) == [ids[1], ids[0]])
        let others = try wait {
            node.store.bulkCommands.bulkOperations(tenant: "other", before: nil, limit: 5, reply: $0)
        }.get()
        #expect(others.isEmpty)
        let strange = wait { node.store.bulkCommands.bulkOperation(ids[0], tenant: "other", reply: $0) }
        guard case .failure(.notFound) = strange else {
            Issue.record("\(strange)")
            return
        }
    }
}

extension NewJob {
    fileprivate func with(_ change: (inout JobSpec) -> Void) -> NewJob {
        var spec = spec
        change(&spec)
        return with(spec)
    }
}
