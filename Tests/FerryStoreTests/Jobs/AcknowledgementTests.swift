import FerryCore
import Postgres
import Sys
import TestSupport
import TestThreads
import Testing

@testable import FerryStore

@Suite("Acknowledgement", .onOwnThread)
struct AcknowledgementTests {
    private let database: TestDatabase

    init() throws { database = try TestDatabase(template: template) }

    private func rules(_ change: (inout AcknowledgementRules) -> Void = { _ in }) -> AcknowledgementRules {
        var rules = AcknowledgementRules()
        change(&rules)
        return rules
    }

    /// A job that has succeeded and waits for its acknowledgement.
    private func finish(_ node: TestNode, _ job: NewJob) throws -> JobID {
        _ = try node.submit(job)
        node.end(try node.attempt(), success)
        return job.id
    }

    private func acknowledge(
        _ node: TestNode, _ id: JobID, tenant: String = "acme"
    ) -> Result<JobRecord, StoreError> {
        wait { node.store.jobCommands.acknowledge(id, tenant: tenant, reply: $0) }
    }

    /// Runs one check at a time, like the housekeeping of any node. Returns the jobs reminded of or given up,
    /// and those that a receiver has confirmed.
    private func look(at now: Timestamp) throws -> (said: Int, confirmed: Int) {
        var connection = try Connection(url: database.url)
        var parameters = Parameters()
        parameters.append(now)
        parameters.append(int32: 100)
        let rows = try connection.execute(Statements.remindJobs, parameters)
        let confirmed = (0..<rows.rowCount).count { rows.bool($0, 2) }
        return (rows.rowCount - confirmed, confirmed)
    }

    private func events(_ job: JobID) throws -> [EventType] {
        try EventLog(database.url).events.filter { $0.record.job == job }.map(\.record.type)
    }

    private func unacknowledged(_ node: TestNode) throws -> [JobID] {
        var query = JobQuery(tenant: "acme")
        query.isUnacknowledged = true
        return try wait { node.store.jobs.jobs(query, reply: $0) }.get().records.map(\.id)
    }

    @Test("a job with acknowledgement is kept past its retention, which restarts when acknowledged")
    func retention() throws {
        let node = try TestNode(database.url) { $0.retentionSeconds = 3 }
        defer { node.store.stop() }
        let kept = try finish(node, newJob(acknowledgement: rules()))
        let other = try finish(node, newJob())
        #expect(try unacknowledged(node) == [kept])
        eventually("the other one is gone") {
            if case .failure(.notFound) = node.job(other) { true } else { false }
        }
        let finishedAt = try #require(try node.job(kept).get().record.finishedAt)
        let acknowledgedAt = try #require(try acknowledge(node, kept).get().acknowledgedAt)
        #expect(acknowledgedAt >= finishedAt + 3, "it has outlived its retention")
        #expect(try unacknowledged(node) == [])
        eventually("it is gone as well") {
            if case .failure(.notFound) = node.job(kept) { true } else { false }
        }
        #expect(Timestamp(microseconds: Sys.wallMicroseconds()) >= acknowledgedAt + 2.9)
        eventually("its log is complete") {
            (try? events(kept).last) == .jobAcknowledged
        }
        #expect(try events(kept).count { $0 == .jobAcknowledged } == 1)
    }

    @Test("a session's shorter retention removes jobs, unacknowledged ones after their acknowledgement")
    func session() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        var configuration = SessionConfiguration()
        configuration.retention = 0.01
        let key = SessionKey(tenant: "acme", name: "short")
        let draft = SessionDraft(configuration: configuration, secrets: JobSecrets(), sealedSecrets: nil)
        _ = try wait { node.store.sessions.putSession(key, draft, if: .none, reply: $0) }.get()
        let kept = try finish(node, newJob(session: "short", acknowledgement: rules()))
        let other = try finish(node, newJob(session: "short"))
        // Retention runs at each start.
        let next = try TestNode(database.url, isWorker: false)
        eventually("the other one is gone") {
            if case .failure(.notFound) = node.job(other) { true } else { false }
        }
        next.store.stop()
        _ = try acknowledge(node, kept).get()
        let last = try TestNode(database.url, isWorker: false)
        defer { last.store.stop() }
        eventually("it is gone as well") {
            if case .failure(.notFound) = node.job(kept) { true } else { false }
        }
    }

    @Test("reminders back off up to their maximum and count, and then the job is given up once")
    func reminders() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let asked = rules {
            $0.timeout = 10_000
            $0.reminders.countMax = 4
            $0.reminders.delayInitial = 100
            $0.reminders.delayMax = 300
        }
        let job = try finish(node, newJob(acknowledgement: asked))
        let record = try node.job(job).get().record
        let end = try #require(record.finishedAt)
        var said: [Int] = []
        for seconds in 1...10_100 where seconds % 50 == 0 {
            if try look(at: end + Double(seconds)).said > 0 { said.append(seconds) }
        }
        #expect(said == [100, 300, 600, 900, 10_000], "after 100, 200, 300 and 300 s, and when it is over")
        eventually("the events have their numbers") {
            (try? events(job).last) == .jobAcknowledgementExpired
        }
        #expect(
            try events(job).suffix(5) == Array(repeating: .jobUnacknowledged, count: 4) + [
                .jobAcknowledgementExpired
            ])
        #expect(try unacknowledged(node) == [])
        let late = try acknowledge(node, job).get()
        #expect(late.acknowledgedAt != nil && late.revision == record.revision + 2)
    }

    @Test("a reminder event shows a failed job with its error and final revision")
    func failed() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let job = newJob(attemptCountMax: 1, acknowledgement: rules { $0.reminders.delayInitial = 100 })
        _ = try node.submit(job)
        node.end(try node.attempt(), failure())
        node.waitUntilFinished(job.id)
        let end = try #require(try node.job(job.id).get().record.finishedAt)
        _ = try look(at: end + 150)
        let first = try acknowledge(node, job.id).get()
        let again = try acknowledge(node, job.id).get()
        #expect(again.acknowledgedAt == first.acknowledgedAt && again.revision == first.revision)
        eventually("the events have their numbers") { (try? events(job.id).last) == .jobAcknowledged }
        let record = try node.job(job.id).get().record
        let log = try EventLog(database.url).events.filter { $0.record.job == job.id }
        let shown = try log.suffix(3).map { event in
            var writer = JSONWriter()
            event.write(into: &writer, job: record)
            return try JSON.parse(writer.bytes)
        }
        #expect(
            shown.map { $0["type"]?.string } == ["job.failed", "job.unacknowledged", "job.acknowledged"])
        let jobs = shown.map { $0["data"]?["job"] ?? .null }
        #expect(jobs.allSatisfy { $0["state"]?.string == "failed" })
        #expect(jobs.allSatisfy { $0["error"]?["code"]?.string == "connection_lost" })
        #expect(jobs.map { $0["acknowledged_at"] == .null } == [true, true, false])
        #expect(jobs[0]["revision"] == jobs[1]["revision"] && jobs[1]["revision"] != jobs[2]["revision"])
    }

    @Test("concurrent checks send one reminder a job, and concurrent acknowledgements count once")
    func together() throws {
        let nodes = try [
            TestNode(database.url, slots: 20), TestNode(database.url, isWorker: false),
        ]
        defer { for node in nodes { node.store.stop() } }
        var jobs: [JobID] = []
        for _ in 0..<20 {
            let job = newJob(acknowledgement: rules())
            _ = try nodes[0].submit(job)
            jobs.append(job.id)
        }
        for attempt in try nodes[0].attempts(20) {
            nodes[0].store.dispatcher.record(result(attempt, success))
        }
        eventually("all have ended") { (try? unacknowledged(nodes[0]).count) == 20 }
        let now = Timestamp(microseconds: Sys.wallMicroseconds()) + 700
        let said = Mailbox<Int>()
        for index in 0..<4 {
            _ = Thread(name: "look-\(index)") { said.send((try? look(at: now).said) ?? -1_000) }
        }
        var counts: [Int] = []
        while counts.count < 4 { counts += said.wait(milliseconds: 120_000) }
        #expect(counts.reduce(0, +) == 20, "\(counts)")
        let answers = Mailbox<Result<JobRecord, StoreError>>()
        for node in nodes {
            for job in jobs {
                node.store.jobCommands.acknowledge(job, tenant: "acme") { answers.send($0) }
            }
        }
        var records: [JobRecord] = []
        while records.count < 40 {
            records += try answers.wait(milliseconds: 120_000).map { try $0.get() }
        }
        for job in jobs {
            let own = records.filter { $0.id == job }
            #expect(own.count == 2 && own[0].acknowledgedAt == own[1].acknowledgedAt)
            #expect(own[0].revision == own[1].revision && own[0].acknowledgedAt != nil)
        }
        #expect(try look(at: now + 100_000).said == 0)
        eventually("the events have their numbers") {
            (try? jobs.allSatisfy { try events($0).last == .jobAcknowledged }) == true
        }
        for job in jobs {
            #expect(try events(job).suffix(3) == [.jobSucceeded, .jobUnacknowledged, .jobAcknowledged])
        }
    }

    @Test("an accepted delivery acknowledges a job with `by: webhook`, and no other job")
    func byWebhook() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let byWebhook = rules { $0.by = .webhook }
        let job = try finish(node, newJob(webhook: true, acknowledgement: byWebhook))
        let other = try finish(node, newJob(webhook: true, acknowledgement: rules()))
        try node.waitForDeliveries(2)
        let found = Mailbox<ClaimedDeliveries>()
        node.store.deliveries.claim(DeliveryDemand(total: 9, other: 9), leaseSeconds: 30) { found.send($0) }
        let claimed = try #require(found.wait(milliseconds: 120_000).first).due
        #expect(Set(claimed.compactMap(\.job)) == [job, other])
        node.store.deliveries.record(
            claimed.map { delivery in
                DeliveryTry(
                    delivery: delivery.id, number: delivery.tryNumber, startedAt: delivery.occurredAt,
                    duration: 0.1, status: 204, error: nil, responseExcerpt: "", verdict: .accepted)
            })
        eventually("it is acknowledged") {
            (try? node.job(job).get().record.acknowledgedAt) != nil
        }
        #expect(try node.job(other).get().record.acknowledgedAt == nil)
        #expect(try unacknowledged(node) == [other])
    }

    @Test("an accepted delivery without acknowledgement is acknowledged instead of reminded of")
    func lostConfirmation() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let job = try finish(
            node, newJob(webhook: true, acknowledgement: rules { $0.by = .webhook }))
        try node.waitForDeliveries(1)
        var connection = try Connection(url: database.url)
        try connection.execute(
            script: "UPDATE deliveries SET state = 'accepted'; \(countRows("deliveries_pending", -1))")
        let end = try #require(try node.job(job).get().record.finishedAt)
        let found = try look(at: end + 700)
        #expect(found.said == 0 && found.confirmed == 1)
        // The next check is due.
        try connection.execute(script: "UPDATE unacknowledged_jobs SET next_look_at = now()")
        eventually("it is acknowledged") {
            (try? node.job(job).get().record.acknowledgedAt) != nil
        }
        eventually("the event has its number") { (try? events(job).last) == .jobAcknowledged }
        #expect(try !events(job).contains(.jobUnacknowledged))
    }

    @Test(
        "a job that changes during its deletion is deleted, unless the request names its old revision",
        arguments: [false, true])
    func deleted(namesRevision: Bool) throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let job = try finish(node, newJob(acknowledgement: rules()))
        let revision = try node.job(job).get().record.revision
        var other = try Connection(url: database.url)
        try other.execute(script: "BEGIN; UPDATE finished_jobs SET revision = revision + 1")
        let answers = Mailbox<Result<JobRecord, StoreError>>()
        node.store.jobCommands.delete(job, tenant: "acme", revision: namesRevision ? revision : nil) {
            answers.send($0)
        }
        try eventually("the deletion waits for the lock") { try isBlocked("control", database.url) }
        try other.execute(script: "COMMIT")
        let answer = try #require(answers.wait(milliseconds: 60_000).first)
        if namesRevision {
            #expect(throws: StoreError.stale(revision: revision + 1)) { try answer.get() }
        } else {
            #expect(try answer.get().revision == revision + 1)
        }
        let isLeft = try? node.job(job).get()
        #expect((isLeft != nil) == namesRevision)
    }

    @Test("the acknowledgement that an endpoint requires is shown since the end, beside the job's secret URL")
    func byEndpoint() throws {
        let endpoint = WebhookID(high: 1, low: 1)
        let rules = rules { $0.endpoint = endpoint }
        var connection = try Connection(url: database.url)
        try connection.execute(
            script: """
                INSERT INTO webhooks (id, created_at, updated_at, disable_after, is_enabled, is_ordered,
                    format, tenant, url, retry_delays, public_key, keys, acknowledgement)
                VALUES ('\(endpoint.uuidText)', now(), now(), 3600, true, false, 'standard', 'acme',
                    'https://one.example/', '{}', '', '', '\(String(decoding: rules.encode(), as: UTF8.self))')
                """)
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let plain = newJob(path: "a?key=hush")
        let job = NewJob(
            id: plain.id, tenant: "acme", JobRequest(plain.spec), sealing: .inverted, traceparent: nil,
            retryOf: nil)
        let id = try finish(node, job)
        let record = try node.job(id).get().record
        #expect(record.storedSpec.whole(opening: .inverted)?.request.url == plain.spec.request.url)
        #expect(record.spec?.acknowledgement == rules)
        #expect(try unacknowledged(node) == [id])
    }

    @Test("acknowledging a waiting job, a job without rules or another tenant's job is refused")
    func refusals() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let waiting = newJob(
            beginAt: Timestamp(microseconds: 4_000_000_000_000_000), acknowledgement: rules())
        _ = try node.submit(waiting)
        let plain = try finish(node, newJob())
        let kept = try finish(node, newJob(acknowledgement: rules()))
        func failure(_ result: Result<JobRecord, StoreError>) -> StoreError? {
            if case .failure(let error) = result { error } else { nil }
        }
        #expect(failure(acknowledge(node, waiting.id)) == .invalidState(.waiting, waitingFor: .beginDate))
        #expect(failure(acknowledge(node, plain)) == .acknowledgementNotRequired)
        #expect(failure(acknowledge(node, kept, tenant: "other")) == .notFound)
        // A deleted job needs no acknowledgement.
        _ = try wait { node.store.jobCommands.delete(kept, tenant: "acme", reply: $0) }.get()
        #expect(try unacknowledged(node) == [])
        #expect(failure(acknowledge(node, kept)) == .notFound)
        var connection = try Connection(url: database.url)
        let held = Statement("held", "SELECT count(*) FROM unacknowledged_jobs")
        #expect(try connection.execute(held).int64(0, 0) == 0, "nothing is left of its hold")
        _ = try wait { node.store.jobCommands.cancel(waiting.id, tenant: "acme", reply: $0) }.get()
        #expect(try unacknowledged(node) == [waiting.id], "cancelled jobs wait as well")
    }

    @Test("acknowledging a job whose fields are damaged fails, as reading it does")
    func damaged() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let job = try finish(node, newJob(acknowledgement: rules()))
        var connection = try Connection(url: database.url)
        try connection.execute(script: "UPDATE finished_jobs SET spec = '{'")
        #expect(throws: StoreError.failed) { try acknowledge(node, job).get() }
    }
}
