import FerryCore
import Postgres
import Synchronization
import Sys
import TestSupport
import TestThreads
import Testing

@testable import FerryStore

@Suite("API operations of the store", .onOwnThread)
struct ControlTests {
    let database: TestDatabase
    let node: TestNode

    init() throws {
        database = try TestDatabase(template: template)
        // Nothing runs by itself here.
        node = try TestNode(database.url, isWorker: false)
    }

    private func list(_ query: JobQuery) throws -> [JobID] {
        try wait { node.store.jobs.jobs(query, reply: $0) }.get().records.map(\.id)
    }

    private func cancel(_ id: JobID, revision: Int32? = nil) -> Result<JobRecord, StoreError> {
        wait { node.store.jobCommands.cancel(id, tenant: "acme", revision: revision, reply: $0) }
    }

    private func edit(
        _ id: JobID, on node: TestNode? = nil, revision: Int32? = nil,
        _ change: @escaping @Sendable (inout JobSpec) -> Void
    ) -> Result<JobRecord, StoreError> {
        let result = wait { reply in
            (node ?? self.node).store.jobCommands.edit(
                id, tenant: "acme", revision: revision,
                { draft throws(InvalidFields) in
                    var draft = draft
                    change(&draft.spec)
                    return draft
                }, reply: reply)
        }
        return result.flatMap { edit in
            if case .success(let record) = edit { .success(record) } else { .failure(.failed) }
        }
    }

    private func failure(_ result: Result<JobRecord, StoreError>) -> StoreError? {
        if case .failure(let error) = result { error } else { nil }
    }

    @Test("an edit of a job that has not begun changes its spec, begin date and queue place")
    func edits() throws {
        defer { node.store.stop() }
        let id = try node.submit(newJob()).id
        let later = Timestamp(microseconds: Sys.wallMicroseconds() + 3_600_000_000)
        let moved = try edit(id) { spec in
            spec.schedule.earliestBeginAt = later
            spec.schedule.priority = 0.9
            spec.metadata = [.init("a", "b")]
            try? spec.request.setURL("https://other.example/x")
        }.get()
        #expect(moved.state == .waiting && moved.waitingFor == .beginDate && moved.revision == 2)
        #expect(moved.nextAttemptAt == later)
        #expect(try list(JobQuery(tenant: "acme", metadata: [.init("a", "b")], limit: 5)) == [id])
        #expect(try list(JobQuery(tenant: "acme", host: "other.example", limit: 5)) == [id])
        #expect(try node.status().waiting == 1)
        #expect(failure(edit(id, revision: 1) { $0.description = "x" }) == .stale(revision: 2))
        #expect(try edit(id, revision: 2) { $0.schedule.priority = 0.9 }.get().revision == 2)
        let back = try edit(id) { $0.schedule.earliestBeginAt = nil }.get()
        #expect(back.state == .queued && back.nextAttemptAt == nil && back.revision == 3)
        // To Swift these are equal; to file systems they are not.
        #expect(try edit(id) { $0.description = "\u{E9}" }.get().revision == 4)
        #expect(try edit(id) { $0.description = "e\u{301}" }.get().revision == 5)
        let status = try node.status()
        #expect(status.waiting == 0 && status.queued == 1)
        _ = try cancel(id).get()
        #expect(failure(edit(id) { $0.description = "x" }) == .invalidState(.cancelled))
    }

    @Test("an edit that comes too late changes neither the job nor its begin date")
    func lateEdit() throws {
        defer { node.store.stop() }
        let later = Timestamp(microseconds: Sys.wallMicroseconds() + 3_600_000_000)
        let id = try node.submit(newJob(beginAt: later)).id
        let url = database.url
        let isFirst = Atomic(true)
        let late = edit(id, revision: 1) { spec in
            // Another node is quicker.
            if isFirst.exchange(false, ordering: .relaxed) {
                var connection = try? Connection(url: url)
                try? connection?.execute(script: "UPDATE jobs SET revision = revision + 1")
            }
            spec.schedule.isDiscretionary = true
            spec.schedule.earliestBeginAt = nil
        }
        #expect(failure(late) == .stale(revision: 2))
        #expect(try node.job(id).get().record.waitingFor == .beginDate)
    }

    @Test("an edit of a running job reaches its node, and the job's result is committed")
    func editsOfRunning() throws {
        defer { node.store.stop() }
        let worker = try TestNode(database.url)
        defer { worker.store.stop() }
        let id = try worker.submit(newJob(webhook: true)).id
        let attempt = try worker.attempt()
        // The other node, so that it has to be told.
        eventually("a change is told") {
            _ = edit(id) { $0.bytesPerSecondMax = ($0.bytesPerSecondMax ?? 4) + 1 }
            return worker.runner.edits.wait(milliseconds: 500).contains {
                $0.0 == id && $0.1.spec.bytesPerSecondMax ?? 0 > 4
            }
        }
        let edited = try edit(id, on: worker) {
            $0.description = "changed"
            $0.metadata = [.init("k", "v")]
            $0.bytesPerSecondMax = nil
        }.get()
        #expect(edited.state == .running && edited.revision > 2)
        #expect(failure(edit(id) { $0.retry.attemptCountMax = 9 }) == .invalidState(.running))
        worker.end(attempt, success)
        let record = try worker.job(id).get().record
        #expect(record.state == .succeeded && record.revision == edited.revision + 1)
        #expect(record.spec?.description == "changed")
        try worker.waitForDeliveries(1)
        let deliveries = try wait {
            worker.store.deliveryQueries.deliveries(of: .job(id), tenant: "acme", limit: 5, reply: $0)
        }.get().records
        #expect(deliveries.count == 1)
        eventually("the slot is free") { worker.slots.freeCount == 4 }
        #expect(try worker.status().running == 0)
    }

    @Test("an edit that ends the wait for connectivity makes the job run at once, and its retry rules apply")
    func impatient() throws {
        defer { node.store.stop() }
        let worker = try TestNode(database.url, prober: ScriptedProber())
        defer { worker.store.stop() }
        let refused = AttemptResult.Outcome.failed(
            TransferError(.couldNotConnect, "It was refused.", phase: .connecting, isRetryable: true),
            retryAfter: nil)
        func waits(_ jobs: [JobID]) throws {
            try eventually("they wait until their host is found") {
                for attempt in worker.runner.begun.take() { worker.end(attempt, refused) }
                return try jobs.allSatisfy {
                    let record = try worker.job($0).get().record
                    return record.waitingFor == .connectivity && record.nextAttemptAt == nil
                }
            }
        }
        var jobs = try (0..<2).map { _ in
            try worker.submit(newJob(host: "away.example", attemptCountMax: 1)).id
        }
        try waits(jobs)
        // One that has not even begun.
        jobs.append(try worker.submit(newJob(host: "away.example", attemptCountMax: 1)).id)
        try waits(jobs)
        #expect(try edit(jobs[0]) { $0.schedule.priority = 0.9 }.get().waitingFor == .connectivity)
        for (index, job) in jobs.dropFirst().enumerated() {
            let edited = try edit(job) { $0.schedule.waitsForConnectivity = false }.get()
            // It may begin before it is read.
            #expect(edited.state == .queued || edited.state == .running)
            #expect(edited.waitingFor == nil && edited.nextAttemptAt == nil)
            let attempt = try worker.attempt()
            #expect(attempt.job == job && attempt.failedAttemptCount == 0)
            worker.end(attempt, refused)
            worker.waitUntilFinished(job)
            #expect(try worker.job(job).get().record.state == .failed)
            let status = try worker.status()
            #expect(status.waiting == 2 - Int64(index) && status.queued == 0 && status.running == 0)
        }
    }

    @Test("limits are stored, sent to every node, and shared by the live workers")
    func limits() throws {
        defer { node.store.stop() }
        let first = try TestNode(database.url)
        let second = try TestNode(database.url, leaseSeconds: 2)
        defer {
            first.store.stop()
            second.store.stop()
        }
        #expect(try wait { first.store.limits.limits(reply: $0) }.get() == TransferLimits())
        let changed = try wait { reply in
            first.store.limits.changeLimits(
                if: { _ in true }, { _ in TransferLimits(bytesSentPerSecondMax: 5) }, reply: reply)
        }.get()
        #expect(changed.bytesSentPerSecondMax == 5)
        #expect(try wait { second.store.limits.limits(reply: $0) }.get() == changed)
        for node in [first, second] {
            var told: [(TransferLimits, RateShares)] = []
            eventually("it hears of them") {
                told += node.runner.limits.take()
                return told.contains { $0.0 == changed && $0.1 == RateShares(nodeCount: 2) }
            }
        }
        let patched = try wait { reply in
            second.store.limits.changeLimits(
                if: { _ in true },
                {
                    TransferLimits(
                        bytesReceivedPerSecondMax: 7, bytesSentPerSecondMax: $0.bytesSentPerSecondMax)
                },
                reply: reply)
        }.get()
        #expect(patched == TransferLimits(bytesReceivedPerSecondMax: 7, bytesSentPerSecondMax: 5))
        #expect(try wait { first.store.limits.limits(reply: $0) }.get() == patched)
    }

    @Test("a job of another tenant is not found")
    func read() throws {
        defer { node.store.stop() }
        let job = newJob(sealedSecrets: Array("whsec_x".utf8))
        _ = try node.submit(job)
        let stored = try node.job(job.id).get()
        #expect(
            stored.record.storedSpec.json == job.storedSpec.json && stored.sealedSecrets == job.sealedSecrets)
        #expect(stored.record.state == .queued && stored.record.revision == 1)
        guard case .failure(.notFound) = node.job(job.id, tenant: "other") else {
            Issue.record("another tenant read it")
            return
        }
    }

    @Test("lists return finished and unfinished jobs from the newest to the oldest, in pages")
    func pages() throws {
        defer { node.store.stop() }
        let jobs = (0..<7).map { _ in newJob() }
        _ = try node.submit(jobs).get()
        _ = try node.submit(newJob(tenant: "other"))
        for index in [1, 4, 6] { _ = try cancel(jobs[index].id).get() }
        var seen: [JobID] = []
        var before: JobID?
        while true {
            let page = try list(JobQuery(tenant: "acme", before: before, limit: 3))
            if page.isEmpty { break }
            seen.append(contentsOf: page)
            before = page.last
        }
        #expect(seen == jobs.map(\.id).reversed())
    }

    @Test("filters narrow a list: session, state, kind, host, time, metadata")
    func filters() throws {
        defer { node.store.stop() }
        let a = newJob(
            session: "s", kind: .data, host: "a.example", metadata: [.init("k", "v"), .init("x", "1")])
        let b = newJob(host: "b.example", metadata: [.init("k", "w")])
        let c = newJob(host: "[::1]")
        _ = try node.submit([a, b, c]).get()
        _ = try cancel(b.id).get()
        #expect(try list(JobQuery(tenant: "acme", session: "s")) == [a.id])
        #expect(try list(JobQuery(tenant: "acme", states: [.cancelled])) == [b.id])
        #expect(try list(JobQuery(tenant: "acme", states: [.queued])) == [c.id, a.id])
        #expect(try list(JobQuery(tenant: "acme", kind: .data)) == [a.id])
        #expect(try list(JobQuery(tenant: "acme", host: "b.example")) == [b.id])
        #expect(try list(JobQuery(tenant: "acme", states: [.cancelled, .queued])) == [c.id, b.id, a.id])
        #expect(try list(JobQuery(tenant: "acme", states: [.failed, .running])) == [])
        #expect(try list(JobQuery(tenant: "acme", host: "[::1]")) == [c.id])
        #expect(try list(JobQuery(tenant: "acme", metadata: [.init("k", "v")])) == [a.id])
        #expect(try list(JobQuery(tenant: "acme", metadata: [.init("k", "w")])) == [b.id])
        let later = Timestamp(microseconds: Sys.wallMicroseconds() + 60_000_000)
        #expect(try list(JobQuery(tenant: "acme", createdAfter: later)) == [])
    }

    @Test("a cancelled queued job ends at once, its webhook is told, and a second cancellation is refused")
    func cancelling() throws {
        defer { node.store.stop() }
        let job = newJob(webhook: true)
        _ = try node.submit(job)
        guard case .failure(.stale(revision: 1)) = cancel(job.id, revision: 9) else {
            Issue.record("a stale revision was accepted")
            return
        }
        let record = try cancel(job.id, revision: 1).get()
        #expect(record.state == .cancelled && record.revision == 2)
        #expect(try node.job(job.id).get().record.state == .cancelled)
        guard case .failure(.invalidState(.cancelled, nil)) = cancel(job.id) else {
            Issue.record("a terminal job changed")
            return
        }
        try node.waitForDeliveries(1)
        let status = try node.status()
        #expect(status.queued == 0 && status.deliveriesPending == 1 && status.oldestDeliverySeconds != nil)
    }

    @Test("a terminal job is deleted and its pending delivery stays; others are not deleted")
    func deleting() throws {
        defer { node.store.stop() }
        let job = newJob(webhook: true)
        _ = try node.submit(job)
        let delete: (@escaping @Sendable (Result<JobRecord, StoreError>) -> Void) -> Void = { reply in
            node.store.jobCommands.delete(job.id, tenant: "acme", reply: reply)
        }
        guard case .failure(.invalidState(.queued, nil)) = wait(delete) else {
            Issue.record("an unfinished job was deleted")
            return
        }
        _ = try cancel(job.id).get()
        #expect(try wait(delete).get().id == job.id)
        guard case .failure(.notFound) = node.job(job.id), case .failure(.notFound) = wait(delete) else {
            Issue.record("the job is still there")
            return
        }
        #expect(try node.status().deliveriesPending == 1)
        let delivery = try #require(try claim().first)
        #expect(delivery.job == job.id && delivery.type == "job.cancelled")
        node.store.deliveries.record([tried(delivery, .accepted, status: 204, excerpt: "")])
        try eventually("it is accepted") { try node.status().deliveriesPending == 0 }
    }

    @Test("deliveries are leased, tried, retried when due, and redelivered on request")
    func deliveries() throws {
        defer { node.store.stop() }
        let job = newJob(webhook: true, sealedSecrets: Array("whsec_x".utf8))
        _ = try node.submit(job)
        _ = try cancel(job.id).get()
        try node.waitForDeliveries(1)
        let first = try #require(try claim().first)
        #expect(
            first.secret == "whsec_x" && first.type == "job.cancelled" && first.url.hasPrefix("https://hook"))
        #expect(try claim().isEmpty)
        node.store.deliveries.record([
            tried(first, .retry(at: first.occurredAt), status: 503, excerpt: "hel\0lo")
        ])
        let second = try #require(try claim().first)
        #expect(second.id == first.id && second.event == first.event && second.tryNumber == 2)
        node.store.deliveries.record([tried(second, .accepted, status: 204, excerpt: "hel\0lo")])
        try eventually("it is accepted") { try node.status().deliveriesPending == 0 }
        let listed = try wait {
            node.store.deliveryQueries.deliveries(of: .job(job.id), tenant: "acme", limit: 10, reply: $0)
        }.get().records
        let shown = try wait { node.store.deliveryQueries.delivery(first.id, tenant: "acme", reply: $0) }
            .get()
        #expect(listed == [shown] && shown.state == .accepted && shown.nextTryAt == nil)
        let tries = shown.tries
        #expect(tries.map(\.status) == [503, 204] && tries.map(\.number) == [1, 2])
        #expect(tries[0].responseExcerpt == "hel\u{FFFD}lo")
        _ = try wait { node.store.deliveryQueries.redeliver(first.id, tenant: "acme", reply: $0) }.get()
        #expect(try node.status().deliveriesPending == 1)
        #expect(try claim().first?.tryNumber == 3)
        var connection = try Connection(url: database.url)
        let shards = try connection.execute(
            Statement("delivery_shards", "SELECT shard FROM job_counts WHERE deliveries_pending <> 0"))
        for thread in ["/events/", "/deliveries/"] {
            let names = (0..<shards.rowCount).map { shards.text($0, 0) }
            #expect(names.contains { $0.contains(thread) }, "it changes its row of counts: \(names)")
        }
        guard
            case .failure(.notFound) = wait({
                node.store.deliveryQueries.redeliver(first.id, tenant: "x", reply: $0)
            }
            )
        else {
            Issue.record("another tenant redelivered it")
            return
        }
    }

    private func claim() throws -> [Delivery] {
        let due = Mailbox<[Delivery]>()
        node.store.deliveries.claim(DeliveryDemand(total: 10, other: 10), leaseSeconds: 30) {
            due.send($0.due)
        }
        return try #require(due.wait(milliseconds: 60_000).first)
    }

    @Test("keys are stored by their hash, listed, and revoked for good")
    func keys() throws {
        defer { node.store.stop() }
        let key = APIKey(
            id: TestNode.identifiers.make(), tenant: "acme", role: .client, name: "ci", hash: [1, 2],
            createdAt: Timestamp(microseconds: 1_000_000))
        for _ in 0..<2 { try wait { node.store.keys.createKey(key, reply: $0) }.get() }
        #expect(try wait { node.store.keys.keys(reply: $0) }.get() == [key])
        try wait { node.store.keys.revokeKey(key.id, reply: $0) }.get()
        guard case .failure(.notFound) = wait({ node.store.keys.revokeKey(key.id, reply: $0) }) else {
            Issue.record("it was revoked twice")
            return
        }
        #expect(try wait { node.store.keys.keys(reply: $0) }.get().first?.revokedAt != nil)
    }

    @Test("a setting keeps its first value")
    func settings() throws {
        defer { node.store.stop() }
        let stored = Settings(node.store.reads)
        #expect(try wait { stored.value(of: "a", reply: $0) }.get() == nil)
        var settings = try FirstSettings(url: database.url)
        #expect(try settings.keep("a", [1]) == [1])
        #expect(try settings.keep("a", [2]) == [1])
        #expect(try wait { stored.value(of: "a", reply: $0) }.get() == [1])
    }

    @Test("the status names the nodes and answers quickly with many jobs")
    func status() throws {
        defer { node.store.stop() }
        _ = try node.submit((0..<3).map { newJob(priority: Double($0) / 3) }).get()
        let status = try node.status()
        #expect(status.queued == 3 && status.nodes.map(\.id) == [node.id])
        #expect(status.nodes[0].heartbeatAgeSeconds < 60 && status.roundTripSeconds != nil)
        #expect(status.oldestQueuedSeconds.map { $0 >= 0 && $0 < 60 } == true)
    }
}
