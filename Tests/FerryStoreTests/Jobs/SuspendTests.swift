import FerryCore
import FerryStore
import Postgres
import Synchronization
import Sys
import TestSupport
import TestThreads
import Testing

@Suite("Suspended jobs", .onOwnThread)
struct SuspendTests {
    let database: TestDatabase

    init() throws { database = try TestDatabase(template: template) }

    private func suspend(_ id: JobID, on node: TestNode, revision: Int32? = nil) -> Result<
        JobRecord, StoreError
    > {
        wait { node.store.jobCommands.suspend(id, tenant: "acme", revision: revision, reply: $0) }
    }

    private func resume(_ id: JobID, on node: TestNode) -> Result<JobRecord, StoreError> {
        wait { node.store.jobCommands.resume(id, tenant: "acme", reply: $0) }
    }

    private func state(_ error: Result<JobRecord, StoreError>) -> JobState? {
        if case .failure(.invalidState(let state, _)) = error { state } else { nil }
    }

    private func expectCounts(_ node: TestNode) throws {
        let counted = try countedStates(database.url)
        let status = try node.status()
        #expect(counted["suspended"] ?? 0 == status.suspended && counted["queued"] ?? 0 == status.queued)
        #expect(counted["running"] ?? 0 == status.running && counted["waiting"] ?? 0 == status.waiting)
    }

    @Test("queued and waiting jobs are suspended at once and keep a future begin date")
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

    private func suspended(
        _ job: NewJob, _ change: (inout JobSpec) -> Void = { _ in }
    ) -> NewJob {
        var spec = job.spec
        spec.startsSuspended = true
        change(&spec)
        return job.with(spec)
    }

    @Test("a job submitted as suspended does not begin before it is resumed, with a key or without")
    func submitted() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        eventually("the first claim clears the backlog") { !node.store.hasBacklog }
        for key in [nil, key("suspended")] {
            let (job, other) = (suspended(newJob()), newJob())
            let accepted = try node.submit([job, other], key: key).get()
            #expect(accepted.jobs.map(\.state) == [.suspended, .running] && !accepted.isReplay)
            let first = accepted.jobs[0]
            #expect(first.waitingFor == nil && first.node == nil && first.nextAttemptAt == nil)
            let attempt = try node.attempt()
            #expect(attempt.job == other.id && node.slots.freeCount == 3)
            let stored = try node.job(job.id).get().record
            #expect(stored.state == .suspended && stored.revision == 1 && stored.attempt == 0)
            #expect(stored.node == nil && stored.startedAt == nil && stored.spec?.startsSuspended == true)
            #expect(try node.status().suspended == 1)
            try expectCounts(node)
            #expect(state(suspend(job.id, on: node)) == .suspended)
            #expect([.queued, .running].contains(try resume(job.id, on: node).get().state))
            let begun = try node.attempt()
            #expect(begun.job == job.id && begun.number == 1)
            for ended in [attempt, begun] { node.end(ended, success) }
            if let key {
                let replay = try node.submit([job, other], key: key).get()
                #expect(replay.isReplay && replay.jobs.map(\.state) == [.suspended, .running])
                #expect(replay.jobs[0].id == job.id && replay.jobs[0].waitingFor == nil)
            }
            try expectCounts(node)
            try eventually("its events are in the log") { try events(of: job.id).count == 3 }
            let told = try events(of: job.id).map(\.record)
            #expect(told.map(\.type) == [.jobCreated, .jobStarted, .jobSucceeded])
            #expect(told[0].state == .suspended && told[0].waitingFor == nil)
        }
        #expect(try RowCheck.brokenRules(url: database.url).isEmpty)
    }

    private func events(of job: JobID) throws -> [Event] {
        try EventLog(database.url).events.filter { $0.record.job == job }
    }

    @Test("a job submitted as suspended waits for what is still to come when it is resumed")
    func submittedLater() throws {
        let node = try TestNode(database.url, isWorker: false)
        defer { node.store.stop() }
        let later = Timestamp(microseconds: Sys.wallMicroseconds() + 3_600_000_000)
        let dependency = newJob()
        let dated = suspended(newJob(beginAt: later))
        let asking = suspended(newJob()) { $0.schedule.confirmsBeforeBegin = true }
        let dependent = suspended(newJob()) { $0.schedule.dependencies = [.job(dependency.id)] }
        let discretionary = suspended(discretionaryJob(bytes: 1_000))
        let doomed = suspended(newJob()) { $0.schedule.dependencies = [.job(dependency.id)] }
        let jobs = [dated, asking, dependent, discretionary, doomed]
        // With its dependents, so that it knows them.
        let accepted = try node.submit([dependency] + jobs).get()
        #expect(accepted.jobs.map(\.state) == [.queued] + Array(repeating: .suspended, count: 5))
        #expect(accepted.jobs.allSatisfy { $0.waitingFor == nil && $0.nextAttemptAt == nil })
        for job in jobs {
            let record = try node.job(job.id).get().record
            #expect(record.state == .suspended && record.waitingFor == nil && record.nextAttemptAt == nil)
        }
        try expectCounts(node)
        let begin = try resume(dated.id, on: node).get()
        #expect(begin.waitingFor == .beginDate && begin.nextAttemptAt == later)
        let asked = try resume(asking.id, on: node).get()
        #expect(asked.state == .waiting && asked.waitingFor == .confirmation && asked.questionJSON != nil)
        #expect(try resume(dependent.id, on: node).get().waitingFor == .dependency)
        let deferred = try resume(discretionary.id, on: node).get()
        #expect(deferred.waitingFor == .discretionary && deferred.nextAttemptAt != nil)
        _ = try wait { node.store.jobCommands.cancel(dependency.id, tenant: "acme", reply: $0) }.get()
        for job in [dependent, doomed] {
            try eventually("it fails with its dependency, suspended or not") {
                try node.job(job.id).get().record.state == .failed
            }
        }
        try expectCounts(node)
        #expect(try RowCheck.brokenRules(url: database.url).isEmpty)
    }

    @Test("a discretionary job suspended before it began is discretionary again when resumed")
    func discretionary() throws {
        let node = try TestNode(database.url, isWorker: false)
        defer { node.store.stop() }
        let job = discretionaryJob(bytes: 1_000)
        let accepted = try node.submit(job)
        #expect(accepted.waitingFor == .discretionary)
        #expect(try suspend(job.id, on: node).get().state == .suspended)
        let resumed = try resume(job.id, on: node).get()
        #expect(resumed.state == .waiting && resumed.waitingFor == .discretionary)
        let (before, after) = (try #require(accepted.nextAttemptAt), try #require(resumed.nextAttemptAt))
        #expect(abs(after - before) < 60, "its latest start, anew")
        try expectCounts(node)
        var connection = try Connection(url: database.url)
        let rows = try connection.execute(
            Statement("may_start", "SELECT discretionary_from <= now(), discretionary_bytes FROM jobs"))
        #expect(rows.bool(0, 0) && rows.int64(0, 1) == 1_000)
    }

    @Test("a running job is suspended by its node, and gets a new attempt when resumed")
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
        // The node may have leased the job already.
        #expect([.queued, .running].contains(try resume(job.id, on: node).get().state))
        let next = try node.attempt()
        #expect(next.number == 2 && next.failedAttemptCount == 0)
        node.end(next, success)
        try expectCounts(node)
    }

    @Test("a running job whose request must not be repeated is not suspended; while it waits, it is")
    func notRepeatable() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let job = newJob(kind: .data, method: "POST", retryDelay: 60)
        _ = try node.submit(job)
        let attempt = try node.attempt()
        guard case .failure(.requestNotRepeatable) = suspend(job.id, on: node) else {
            Issue.record("it is suspended")
            return
        }
        #expect(node.runner.stops.withLock { $0[job.id] } == nil)
        node.store.dispatcher.record(result(attempt, failure()))
        try eventually("it waits") { try node.job(job.id).get().record.state == .waiting }
        #expect(try suspend(job.id, on: node).get().state == .suspended)
        try expectCounts(node)
    }

    @Test("a requested suspension takes effect after a failure or a drain, unless it is taken back")
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
        // The suspension is taken back before the node carries it out: the end of the attempt leads to the
        // next one.
        #expect(try resume(job.id, on: node).get().state == .running)
        #expect(state(resume(job.id, on: node)) == .running)
        node.store.dispatcher.record(result(attempt, .suspended))
        #expect(try node.attempt().number == 2)
        try expectCounts(node)
    }

    @Test("cancelling a suspended job with bytes keeps resume data and files; without bytes, neither")
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
            let fates = { try wait { node.store.jobs.removableFiles(of: [job.id], reply: $0) }.get() }
            #expect(try fates() == [job.id: false])
            let record = try wait {
                node.store.jobCommands.cancel(job.id, tenant: "acme", keepsBytes: true, reply: $0)
            }.get()
            #expect(record.state == .cancelled)
            #expect(record.resumeData == (leavesBytes ? "sealed \(job.id)" : nil))
            #expect(try node.job(job.id).get().record.resumeData == record.resumeData)
            #expect(node.observer.leaving.withLock { $0.contains(job.id) } == leavesBytes)
            #expect(try fates() == [job.id: !leavesBytes])
        }
        let unknown: JobID = TestNode.identifiers.make()
        #expect(try wait { node.store.jobs.removableFiles(of: [unknown], reply: $0) }.get() == [:])
    }

    @Test("bytes are kept for a cancellation with `keepsBytes` that the failing attempt did not get")
    func unheard() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        for keepsBytes in [true, false] {
            let job = newJob()
            _ = try node.submit(job)
            let attempt = try node.attempt()
            _ = try wait {
                node.store.jobCommands.cancel(job.id, tenant: "acme", keepsBytes: keepsBytes, reply: $0)
            }.get()
            // The attempt has failed already: the node that claims the job next ends it.
            node.store.dispatcher.record(result(attempt, failure(), leavesBytes: true))
            node.waitUntilFinished(job.id)
            let record = try node.job(job.id).get().record
            #expect(record.state == .cancelled && record.attempt == 2)
            #expect(record.resumeData == (keepsBytes ? "sealed \(job.id)" : nil))
            #expect(node.observer.leaving.withLock { $0.contains(job.id) } == keepsBytes)
        }
    }

    @Test("a failed job has resume data if its last attempt has left bytes")
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

    @Test("the bytes of an attempt are shown until a later attempt has left a record")
    func keptBytes() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let job = newJob()
        _ = try node.submit(job)
        let kept = PartialDownload(byteCount: 700_000, total: 1_000_000)
        let shown = { try node.job(job.id).get().record.partialDownload }
        for left in [kept, nil, kept] {
            let attempt = try node.attempt()
            #expect(try attempt.number == 1 || shown() == kept, "before its own are known")
            _ = try suspend(job.id, on: node).get()
            node.store.dispatcher.record(result(attempt, .suspended, partial: left))
            try eventually("it is suspended") { try node.job(job.id).get().record.state == .suspended }
            // An attempt without a trace has not begun: the bytes of the one before are still there.
            #expect(try shown() == kept)
            let query = JobQuery(tenant: "acme", limit: 10)
            let listed = try wait { node.store.jobs.jobs(query, reply: $0) }.get().records
            #expect(listed.map(\.partialDownload) == [kept])
            if left == nil || attempt.number == 1 { _ = try resume(job.id, on: node).get() }
        }
        let ended = try wait {
            node.store.jobCommands.cancel(job.id, tenant: "acme", keepsBytes: true, reply: $0)
        }.get()
        #expect(ended.partialDownload == kept)
        #expect(try shown() == kept)
        let dropped = newJob()
        _ = try node.submit(dropped)
        let attempt = try node.attempt()
        _ = try suspend(dropped.id, on: node).get()
        node.store.dispatcher.record(result(attempt, .suspended, partial: kept))
        try eventually("it is suspended") { try node.job(dropped.id).get().record.state == .suspended }
        let cancelled = try wait { node.store.jobCommands.cancel(dropped.id, tenant: "acme", reply: $0) }
            .get()
        #expect(cancelled.partialDownload == nil && cancelled.resumeData == nil)
        #expect(try node.job(dropped.id).get().record.partialDownload == nil)
    }

    @Test("kept_attempt skips records of lost attempts and unreadable ones")
    func keptAttempt() throws {
        try TestNode(database.url).store.stop()
        let instant = Timestamp(microseconds: 1)
        let trace = AttemptTrace(startedAt: instant, finishedAt: instant)
        let packed = { (number: Int32, partial: PartialDownload?) in
            AttemptRecord.packed(
                number: number, node: nil, trace, .failed, error: Stored(json: Array("{}".utf8)),
                partialDownload: partial, .inverted)
        }
        let latest = packed(2, PartialDownload(byteCount: 5, total: nil))
        let lost: [UInt8] = [2] + Array(repeating: 8, count: 28)
        let all = [packed(1, PartialDownload(byteCount: 3, total: 9)), latest, packed(3, nil), lost, [1], []]
        var connection = try Connection(url: database.url)
        var parameters = Parameters()
        parameters.appendArray(.bytea, all) { $0.append(bytea: $1) }
        let rows = try connection.execute(
            Statement("kept", "SELECT kept_attempt($1::bytea[]), kept_attempt(NULL)", parameters: 1),
            parameters)
        #expect(rows.bytes(0, 0) == latest && rows.isNull(0, 1))
    }

    @Test("a released attempt leaves its bytes to the next attempt")
    func drained() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let job = newJob()
        _ = try node.submit(job)
        let kept = PartialDownload(byteCount: 7, total: 10)
        node.store.dispatcher.record(result(try node.attempt(), .released, partial: kept))
        let next = try node.attempt()
        let record = try node.job(job.id).get()
        #expect(next.number == 2 && record.hasBytes && record.record.partialDownload == kept)
        node.end(next, success)
        #expect(try node.job(job.id).get().record.partialDownload == nil)
    }

    @Test("a suspended job that expires fails with resume data")
    func overdue() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let kept = PartialDownload(byteCount: 7, total: 10)
        let job = newJob(timeoutForResource: 2)
        _ = try node.submit(job)
        let attempt = try node.attempt()
        _ = try suspend(job.id, on: node).get()
        node.store.dispatcher.record(result(attempt, .suspended, partial: kept))
        try eventually("it is suspended") { try node.job(job.id).get().record.state == .suspended }
        let end = attempt.expiry.microseconds + 50_000
        eventually("its time is over") { Sys.wallMicroseconds() > end }
        // The next claim ends the job, unless the heartbeat thread has ended it before.
        _ = resume(job.id, on: node)
        node.waitUntilFinished(job.id)
        let record = try node.job(job.id).get().record
        #expect(record.state == .failed && record.resumeData == "sealed \(job.id)")
        #expect(record.partialDownload == kept)
        #expect(node.observer.leaving.withLock { $0.contains(job.id) })
    }

    @Test("an event of a running job precedes its end, and one of an ended attempt is dropped")
    func resumptionEvents() throws {
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
            node.store.deliveryQueries.deliveries(of: .job(job.id), tenant: "acme", limit: 10, reply: $0)
        }.get().records.sorted { $0.sequence < $1.sequence }
        #expect(deliveries.map(\.type) == ["job.resumed_at_offset", "job.succeeded"])
        #expect(deliveries.map(\.sequence) == [3, 4])
        #expect(try node.status().deliveriesPending == 2)
    }
}
