import FerryCore
import FerryStore
import Synchronization
import Sys
import TestSupport
import Testing

@Suite("Suspended jobs")
struct SuspendTests {
    let database: TestDatabase

    init() throws { database = try TestDatabase(template: template) }

    private func suspend(_ id: JobID, on node: TestNode, revision: Int32? = nil) -> Result<
        JobRecord, StoreError
    > {
        wait { node.store.control.suspend(id, tenant: "acme", revision: revision, reply: $0) }
    }

    private func resume(_ id: JobID, on node: TestNode) -> Result<JobRecord, StoreError> {
        wait { node.store.control.resume(id, tenant: "acme", reply: $0) }
    }

    private func state(_ error: Result<JobRecord, StoreError>) -> JobState? {
        if case .failure(.invalidState(let state)) = error { state } else { nil }
    }

    private func expectCounts(_ node: TestNode) throws {
        let counted = try countedStates(database.url)
        let status = try node.status()
        #expect(counted["suspended"] ?? 0 == status.suspended && counted["queued"] ?? 0 == status.queued)
        #expect(counted["running"] ?? 0 == status.running && counted["waiting"] ?? 0 == status.waiting)
    }

    @Test("queued and waiting jobs are suspended at once; a begin date that is to come is kept")
    func notRunning() throws {
        let node = try TestNode(database.url, isWorker: false)
        defer { node.store.stop() }
        let queued = newJob()
        let later = Timestamp(microseconds: Sys.wallMicroseconds() + 3_600_000_000)
        let waiting = newJob(beginAt: later)
        _ = try node.submit([queued, waiting]).get()
        guard case .failure(.stale(revision: 1)) = suspend(queued.id, on: node, revision: 7) else {
            Issue.record("a stale revision was accepted")
            return
        }
        for job in [queued, waiting] {
            let record = try suspend(job.id, on: node).get()
            #expect(record.state == .suspended && record.revision == 2 && record.waitingFor == nil)
            #expect(state(suspend(job.id, on: node)) == .suspended)
        }
        #expect(try node.status().suspended == 2)
        try expectCounts(node)
        #expect(try resume(queued.id, on: node).get().state == .queued)
        let begin = try resume(waiting.id, on: node).get()
        #expect(begin.state == .waiting && begin.waitingFor == .beginDate && begin.nextAttemptAt == later)
        #expect(state(resume(queued.id, on: node)) == .queued)
        try expectCounts(node)
    }

    @Test("a running job is suspended by its node; resumed it gets a new attempt with the secrets it had")
    func running() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let job = newJob()
        _ = try node.submit(job)
        let attempt = try node.attempt()
        #expect(try suspend(job.id, on: node).get().state == .running)
        #expect(node.runner.stops.withLock { $0[job.id] } == .suspend)
        node.store.dispatcher.record(result(attempt, .suspended, leavesBytes: true))
        #expect(node.observer.suspended.wait(milliseconds: 60_000) == [job.id])
        let record = try node.job(job.id).get()
        #expect(record.record.state == .suspended && record.hasBytes && record.record.node == nil)
        eventually("the slot is free") { node.slots.freeCount == 4 }
        try expectCounts(node)
        // The node may have taken it already.
        #expect([.queued, .running].contains(try resume(job.id, on: node).get().state))
        let next = try node.attempt()
        #expect(next.number == 2 && next.failedAttemptCount == 0)
        node.end(next, success)
        try expectCounts(node)
    }

    @Test("a suspension that was asked for outlasts a failure, a drain and a dead node")
    func asked() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        for outcome in [failure(), .released] {
            let job = newJob(retryDelay: 60)
            _ = try node.submit(job)
            let attempt = try node.attempt()
            _ = try suspend(job.id, on: node).get()
            node.store.dispatcher.record(result(attempt, outcome))
            try eventually("it is suspended") { try node.job(job.id).get().record.state == .suspended }
            try expectCounts(node)
        }
        let job = newJob()
        _ = try node.submit(job)
        let attempt = try node.attempt()
        _ = try suspend(job.id, on: node).get()
        // Taken back before the node has done it: then the attempt's end only leads to the next one.
        #expect(try resume(job.id, on: node).get().state == .running)
        #expect(state(resume(job.id, on: node)) == .running)
        node.store.dispatcher.record(result(attempt, .suspended))
        #expect(try node.attempt().number == 2)
        try expectCounts(node)
    }

    @Test("a suspended job is cancelled with resume data where it has bytes, and its files are then to stay")
    func resumeData() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        for leavesBytes in [true, false] {
            let job = newJob()
            _ = try node.submit(job)
            let attempt = try node.attempt()
            _ = try suspend(job.id, on: node).get()
            node.store.dispatcher.record(result(attempt, .suspended, leavesBytes: leavesBytes))
            try eventually("it is suspended") { try node.job(job.id).get().record.state == .suspended }
            let fates = { try wait { node.store.control.leftovers(of: [job.id], reply: $0) }.get() }
            #expect(try fates() == [job.id: false])
            let record = try wait {
                node.store.control.cancel(job.id, tenant: "acme", keepsBytes: true, reply: $0)
            }.get()
            #expect(record.state == .cancelled)
            #expect(record.resumeData == (leavesBytes ? "sealed \(job.id)" : nil))
            #expect(try node.job(job.id).get().record.resumeData == record.resumeData)
            #expect(node.observer.leaving.withLock { $0.contains(job.id) } == leavesBytes)
            #expect(try fates() == [job.id: !leavesBytes])
        }
        let unknown: JobID = TestNode.identifiers.make()
        #expect(try wait { node.store.control.leftovers(of: [unknown], reply: $0) }.get() == [:])
    }

    @Test("a cancellation that its attempt did not hear of leaves the bytes to whoever asked for them")
    func unheard() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        for keepsBytes in [true, false] {
            let job = newJob()
            _ = try node.submit(job)
            let attempt = try node.attempt()
            _ = try wait {
                node.store.control.cancel(job.id, tenant: "acme", keepsBytes: keepsBytes, reply: $0)
            }.get()
            // It has failed already: who claims the job next ends it.
            node.store.dispatcher.record(result(attempt, failure(), leavesBytes: true))
            node.waitUntilFinished(job.id)
            let record = try node.job(job.id).get().record
            #expect(record.state == .cancelled && record.attempt == 2)
            #expect(record.resumeData == (keepsBytes ? "sealed \(job.id)" : nil))
            #expect(node.observer.leaving.withLock { $0.contains(job.id) } == keepsBytes)
        }
    }

    @Test("a failed job shows resume data when its last attempt has left bytes")
    func failed() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let job = newJob()
        _ = try node.submit(job)
        node.store.dispatcher.record(
            result(try node.attempt(), failure(isRetryable: false), leavesBytes: true))
        node.waitUntilFinished(job.id)
        #expect(try node.job(job.id).get().record.resumeData == "sealed \(job.id)")
    }

    @Test("news of a running job are numbered before its end; those of an old attempt are dropped")
    func news() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let job = newJob(webhook: true)
        _ = try node.submit(job)
        let attempt = try node.attempt()
        node.store.dispatcher.resumed(attempt, at: 77)
        node.end(attempt, success)
        node.store.dispatcher.resumed(attempt, at: 78)
        try node.waitForDeliveries(2)
        let deliveries = try wait {
            node.store.control.deliveries(tenant: "acme", job: job.id, limit: 10, reply: $0)
        }.get().sorted { $0.sequence < $1.sequence }
        #expect(deliveries.map(\.type) == ["job.resumed_at_offset", "job.succeeded"])
        #expect(deliveries.map(\.sequence) == [3, 4])
        #expect(try node.status().deliveriesPending == 2)
    }
}
