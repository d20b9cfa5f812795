import FerryCore
import Postgres
import TestSupport
import TestThreads
import Testing

@testable import FerryStore

@Suite("Filters and summaries of jobs", .onOwnThread)
struct JobSummaryTests {
    private let database: TestDatabase

    init() throws { database = try TestDatabase(template: template) }

    private func query(_ change: (inout JobQuery) -> Void = { _ in }) -> JobQuery {
        var query = JobQuery(tenant: "acme")
        change(&query)
        return query
    }

    private func list(_ node: TestNode, _ change: (inout JobQuery) -> Void) throws -> Set<JobID> {
        Set(try wait { node.store.jobs.jobs(query(change), reply: $0) }.get().records.map(\.id))
    }

    private func summary(
        _ node: TestNode, _ dimensions: [SummaryDimension], _ change: (inout JobQuery) -> Void = { _ in }
    ) throws -> JobSummary {
        try wait { node.store.jobs.summary(of: query(change), by: dimensions, reply: $0) }.get()
    }

    private func counts(_ summary: JobSummary) -> [[String?]: Int64] {
        Dictionary(uniqueKeysWithValues: summary.rows.map { ($0.values, $0.count) })
    }

    /// Ends a job with an error.
    private func fail(_ node: TestNode, host: String, _ code: TransferError.Code) throws -> JobID {
        let job = newJob(host: host, attemptCountMax: 1)
        _ = try node.submit(job)
        node.end(
            try node.attempt(),
            .failed(TransferError(code, "x", phase: .waiting, isRetryable: false), retryAfter: nil))
        node.waitUntilFinished(job.id)
        return job.id
    }

    @Test("a filter by error finds failed jobs, and waiting ones whose last attempt failed")
    func errors() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let late = try fail(node, host: "a.example", .timedOut)
        let lost = try fail(node, host: "a.example", .connectionLost)
        let waiting = newJob(retryDelay: 600)
        _ = try node.submit(waiting)
        node.end(try node.attempt(), failure())
        try eventually("the job waits") { try node.state(waiting) == .waiting }
        #expect(try list(node) { $0.errors = [.timedOut] } == [late])
        #expect(try list(node) { $0.errors = [.connectionLost] } == [lost, waiting.id])
        #expect(try list(node) { $0.errors = [.connectionLost, .timedOut] } == [late, lost, waiting.id])
        #expect(try list(node) { ($0.errors, $0.states) = ([.connectionLost], [.failed]) } == [lost])
        // Operations on many jobs have the same filter.
        #expect(try node.count(JobFilter.only(\.errors, [.connectionLost])) == 2)
    }

    @Test("filters by the time of the end leave out unfinished jobs and the bounds")
    func finished() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let ids = try (0..<3).map { _ in try fail(node, host: "a.example", .timedOut) }
        _ = try node.submit(newJob())
        let times = try ids.map { try #require(try node.job($0).get().record.finishedAt) }
        #expect(try list(node) { $0.finishedAfter = times[1] } == [ids[2]])
        #expect(try list(node) { $0.finishedBefore = times[1] } == [ids[0]])
        #expect(
            try list(node) { ($0.finishedAfter, $0.finishedBefore) = (times[0], times[2]) } == [ids[1]])
    }

    @Test("a filter by waiting reason finds the jobs that GET shows with it, in lists and operations")
    func reasons() throws {
        let node = try TestNode(database.url, slots: 1)
        defer { node.store.stop() }
        let running = newJob()
        _ = try node.submit(running)
        let attempt = try node.attempt()
        let queued = [newJob(), newJob()]
        let later = newJob(beginAt: Timestamp(microseconds: 4_000_000_000_000_000))
        _ = try node.submit(queued + [later]).get()
        let slot = { (query: inout JobQuery) in query.waitingReasons = [.noFreeSlot] }
        #expect(try list(node, slot) == Set(queued.map(\.id)))
        #expect(try list(node) { $0.waitingReasons = [.beginDate] } == [later.id])
        #expect(try list(node) { $0.waitingReasons = [.retryBackoff] } == [])
        #expect(
            try list(node) { ($0.waitingReasons, $0.states) = ([.noFreeSlot, .beginDate], [.waiting]) }
                == [later.id])
        let first = query {
            slot(&$0)
            $0.limit = 1
        }
        let page = try wait { node.store.jobs.jobs(first, reply: $0) }.get()
        #expect(page.records.map(\.id) == [queued[1].id])
        let operation = try node.run(.suspend, JobFilter.only(\.waitingReasons, [.noFreeSlot]))
        #expect(operation.counts.changed == 2 && operation.counts.matched == 2)
        #expect(try list(node) { $0.waitingReasons = [.suspended] } == Set(queued.map(\.id)))
        node.end(attempt, success)
    }

    @Test("a summary counts jobs by state, host, error and waiting reason, with the newest as example")
    func dimensions() throws {
        let node = try TestNode(database.url, slots: 1)
        defer { node.store.stop() }
        let failures = [
            try fail(node, host: "a.example", .timedOut), try fail(node, host: "a.example", .timedOut),
            try fail(node, host: "b.example", .timedOut), try fail(node, host: "b.example", .digestMismatch),
        ]
        _ = try node.submit(newJob(host: "b.example"))
        let attempt = try node.attempt()
        let later = Timestamp(microseconds: 4_000_000_000_000_000)
        _ = try node.submit([
            newJob(host: "a.example"), newJob(host: "b.example", path: "other/b"),
            newJob(host: "a.example", beginAt: later),
        ]).get()
        let (a, b) = ("https://a.example:443", "https://b.example:443")
        let states = try summary(node, [.state])
        #expect(counts(states) == [["failed"]: 4, ["running"]: 1, ["queued"]: 2, ["waiting"]: 1])
        #expect(states.isExact && states.rows.map(\.values).first == ["failed"])
        #expect(states.rows.first?.example == failures[3])
        #expect(counts(try summary(node, [.host])) == [[a]: 4, [b]: 4])
        let failed = try summary(node, [.host, .error]) { $0.states = [.failed] }
        #expect(
            counts(failed) == [[a, "timed_out"]: 2, [b, "timed_out"]: 1, [b, "digest_mismatch"]: 1])
        #expect(failed.rows.first?.example == failures[1])
        #expect(
            counts(try summary(node, [.waitingReason])) == [
                [nil]: 5, ["no_free_slot"]: 2, ["begin_date"]: 1,
            ])
        #expect(
            counts(try summary(node, [.host]) { $0.waitingReasons = [.noFreeSlot] }) == [[a]: 1, [b]: 1])
        #expect(try summary(node, [.state]) { $0.session = "none" }.rows.isEmpty)
        node.end(attempt, success)
    }

    @Test("a summary of more jobs than one request looks at is not exact, and counts the newest")
    func bound() throws {
        let node = try TestNode(database.url, isWorker: false)
        defer { node.store.stop() }
        var connection = try Connection(url: database.url)
        let count = Limits.listScanRowCount
        try connection.execute(
            script: """
                INSERT INTO jobs (id, created_at, expires_at, priority, kind, state, tenant, session, origin,
                    spec, queue, urgency)
                SELECT ('01900000-0000-7000-8000-' || lpad(i::text, 12, '0'))::uuid, now(),
                    now() + interval '1 day', 0.5, 'download', 'suspended', 'acme', 'default',
                    'https://' || CASE WHEN i = 1 THEN 'old' ELSE 'new' END || '.example:443',
                    '{"kind":"download","request":{"url":"https://example.org/"}}', 1, now()
                FROM generate_series(1, \(count)) AS i;
                \(countRows("suspended", count))
                """)
        let all = try summary(node, [.host, .waitingReason])
        let (old, new) = ("https://old.example:443", "https://new.example:443")
        #expect(counts(all) == [[new, "suspended"]: Int64(count - 1), [old, "suspended"]: 1])
        #expect(all.isExact)
        _ = try node.submit(newJob(host: "new.example"))
        let newest = try summary(node, [.host])
        #expect(!newest.isExact && counts(newest) == [[new]: Int64(count)])
    }
}
