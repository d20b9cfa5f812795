import FerryCore
import Postgres
import Sys
import TestSupport
import TestThreads
import Testing

@testable import FerryStore

@Suite("Lists of a long history", .onOwnThread)
struct ListTests {
    let database: TestDatabase
    let node: TestNode

    init() throws {
        database = try TestDatabase(template: template)
        // Nothing runs by itself here.
        node = try TestNode(database.url, isWorker: false)
    }

    @Test(
        "a list by time reads no rows older than jobs of that time can be",
        arguments: ["jobs", "finished_jobs", "unacknowledged_jobs"])
    func timeBound(table: String) throws {
        defer { node.store.stop() }
        let id = try node.submit(newJob(acknowledgement: AcknowledgementRules())).id
        if table != "jobs" {
            _ = try wait { node.store.jobCommands.cancel(id, tenant: "acme", reply: $0) }.get()
        }
        var connection = try Connection(url: database.url)
        let made = Double(id.millisecondsSince1970) / 1_000
        var query = JobQuery(tenant: "acme")
        query.isUnacknowledged = table == "unacknowledged_jobs"
        var seen: [[JobID]] = []
        // The first one has waited for its transaction. Nobody waits for an hour: what is found then shows
        // how far the look went.
        for seconds in [240.0, 3_600] {
            try connection.execute(
                script: """
                    UPDATE jobs SET created_at = to_timestamp(\(made + seconds));
                    UPDATE finished_jobs SET created_at = to_timestamp(\(made + seconds))
                    """)
            query.createdAfter = Timestamp(microseconds: Int64((made + seconds - 1) * 1e6))
            let page = try wait { node.store.jobs.jobs(query, reply: $0) }.get().records
            seen.append(page.map(\.id))
        }
        #expect(seen == [[id], []])
    }

    /// Jobs of one session, the oldest with metadata that no other has.
    private func addBacklog(_ count: Int) throws {
        var connection = try Connection(url: database.url)
        try connection.execute(
            script: """
                INSERT INTO jobs (id, created_at, expires_at, priority, kind, state, tenant, session, origin,
                    spec, queue, urgency, metadata)
                SELECT ('01900000-0000-7000-8000-' || lpad(i::text, 12, '0'))::uuid, now(),
                    now() + interval '1 day', 0.5,
                    'download', 'suspended', 'acme', 'default', 'https://example.org:443',
                    '{"kind":"download","request":{"url":"https://example.org/"}}', 1, now(),
                    CASE WHEN i = 1 THEN '{"order": "1"}'::jsonb END
                FROM generate_series(1, \(count)) AS i;
                \(countRows("suspended", count))
                """)
    }

    @Test("a rare filter returns a short page when its scan ends, and later pages find the job")
    func rareFilter() throws {
        defer { node.store.stop() }
        // Two whole scans, and the oldest job beyond them.
        try addBacklog(2 * Limits.listScanRowCount + 1)
        var query = JobQuery(tenant: "acme", metadata: [.init("order", "1")])
        var pages: [ListPage<JobRecord, JobKindTag>] = []
        repeat {
            let page = try wait { node.store.jobs.jobs(query, reply: $0) }.get()
            query.before = page.stoppedAt
            pages.append(page)
        } while query.before != nil && pages.count < 10
        #expect(pages.map(\.records.count) == [0, 0, 1])
        #expect(pages.map { $0.stoppedAt == nil } == [false, false, true])
    }

    @Test("a page that several turns fill has every job once, in order")
    func severalTurns() throws {
        defer { node.store.stop() }
        try addBacklog(3 * Limits.listTurnRowCount)
        var connection = try Connection(url: database.url)
        let kept = "id::text LIKE '%77'"
        try connection.execute(script: "UPDATE jobs SET kind = 'upload' WHERE \(kept)")
        let query = JobQuery(tenant: "acme", kind: .upload, limit: 100)
        let page = try wait { node.store.jobs.jobs(query, reply: $0) }.get()
        let expected =
            try connection.execute(
                Statement("kept", "SELECT id FROM jobs WHERE \(kept) ORDER BY id DESC")
            ).identifiers() as [JobID]
        #expect(page.records.map(\.id) == expected && expected.count == 30 && page.stoppedAt == nil)
    }

    @Test("a slow page does not delay the read of a job")
    func slowPage() throws {
        defer { node.store.stop() }
        let id = try node.submit(newJob()).id
        // A table that only the list reads.
        var holder = try Connection(url: database.url)
        try holder.execute(script: "BEGIN; LOCK TABLE schedule_runs IN ACCESS EXCLUSIVE MODE")
        let pages = Mailbox<Result<ListPage<JobRecord, JobKindTag>, StoreError>>()
        node.store.jobs.jobs(JobQuery(tenant: "acme")) { pages.send($0) }
        try eventually("the list waits") { try isBlocked("reads", at: "schedule_runs", database.url) }
        #expect(try node.job(id).get().record.id == id)
        try holder.execute(script: "ROLLBACK")
        // Behind it the read would have waited until the list was given up.
        #expect(try pages.wait(milliseconds: 60_000).first?.get().records.map(\.id) == [id])
    }
}
