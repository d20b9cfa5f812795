import FerryCore
import Postgres
import Sys
import TestSupport
import TestThreads
import Testing

@testable import FerryStore

@Suite("Reads of several tenants", .onOwnThread)
struct ReadPoolTests {
    let database: TestDatabase
    let node: TestNode

    init() throws {
        database = try TestDatabase(template: template)
        node = try TestNode(database.url, isWorker: false)
    }

    private func holder(_ table: String) throws -> Connection {
        var holder = try Connection(url: database.url)
        try holder.execute(script: "BEGIN; LOCK TABLE \(table) IN ACCESS EXCLUSIVE MODE")
        return holder
    }

    /// Sessions of the node's reads that wait for a lock.
    private func blockedCount() throws -> Int64 {
        var watcher = try Connection(url: database.url)
        return try watcher.execute(
            Statement(
                "blocked_reads",
                """
                SELECT count(*) FROM pg_stat_activity
                WHERE datname = current_database() AND application_name LIKE 'ferry reads%'
                    AND wait_event_type = 'Lock'
                """)
        ).int64(0, 0)
    }

    @Test("forty reads of one tenant that wait in the database do not delay a read of another tenant")
    func greedy() throws {
        defer { node.store.stop() }
        let id = try node.submit(newJob()).id
        // A table that lists read and a job does not.
        var holder = try holder("schedule_runs")
        let pages = Mailbox<Result<ListPage<JobRecord, JobKindTag>, StoreError>>()
        for _ in 0..<40 { node.store.jobs.jobs(JobQuery(tenant: "greedy")) { pages.send($0) } }
        let used = Int64(Limits.readConnectionCount - 1)
        try eventually("all but one connection wait") { try blockedCount() == used }
        // The tenant's lists have waited for as long as they may, and no connection has become free.
        #expect(try node.job(id).get().record.id == id)
        let stillUsed = try blockedCount()
        #expect(pages.count == 0 && stillUsed == used)
        try holder.execute(script: "ROLLBACK")
        var answers: [Result<ListPage<JobRecord, JobKindTag>, StoreError>] = []
        while answers.count < 40 {
            let more = pages.wait(milliseconds: 60_000)
            try #require(!more.isEmpty)
            answers += more
        }
        for answer in answers { #expect(try answer.get().records.isEmpty) }
    }

    @Test("reads of a tenant beyond the limit are refused at once, and other tenants are served")
    func overload() throws {
        defer { node.store.stop() }
        let id = try node.submit(newJob()).id
        var holder = try holder("schedule_runs")
        let pages = Mailbox<Result<ListPage<JobRecord, JobKindTag>, StoreError>>()
        let running = Limits.readConnectionCount - 1
        for _ in 0..<Limits.waitingReadCountMax + running + 5 {
            node.store.jobs.jobs(JobQuery(tenant: "greedy")) { pages.send($0) }
        }
        let refused = pages.take()
        #expect(refused.count == 5)
        for answer in refused { #expect(throws: StoreError.tooManyReads) { try answer.get() } }
        #expect(try node.job(id).get().record.id == id)
        try holder.execute(script: "ROLLBACK")
    }

    @Test("a read that the server stops fails with `readStopped`, and its connection serves the next one")
    func stopped() throws {
        defer { node.store.stop() }
        let id = try node.submit(newJob()).id
        var holder = try holder("schedule_runs")
        let pages = Mailbox<Result<ListPage<JobRecord, JobKindTag>, StoreError>>()
        node.store.jobs.jobs(JobQuery(tenant: "acme")) { pages.send($0) }
        try eventually("the list waits") { try blockedCount() == 1 }
        // As `statement_timeout` does.
        let stopped = try holder.execute(
            Statement(
                "stop_reads",
                """
                SELECT pid, pg_cancel_backend(pid) FROM pg_stat_activity
                WHERE datname = current_database() AND application_name LIKE 'ferry reads%'
                    AND wait_event_type = 'Lock'
                """)
        ).int32(0, 0)
        let answer = try #require(pages.wait(milliseconds: 60_000).first)
        #expect(throws: StoreError.readStopped) { try answer.get() }
        try holder.execute(script: "ROLLBACK")
        let page = try wait { node.store.jobs.jobs(JobQuery(tenant: "acme"), reply: $0) }.get()
        #expect(page.records.map(\.id) == [id])
        let sessions = Statement(
            "sessions_of_reads",
            """
            SELECT count(*) FROM pg_stat_activity
            WHERE pid = $1::integer AND application_name LIKE 'ferry reads%'
            """, parameters: 1)
        var parameters = Parameters()
        parameters.append(int32: stopped)
        let sessionCount = try holder.execute(sessions, parameters).int64(0, 0)
        #expect(sessionCount == 1, "the session goes on")
    }

    @Test("every connection for reads has a statement timeout")
    func timeout() {
        var options = ConnectionOptions()
        ReadPool.adjust(&options)
        #expect(options.statementTimeout == .seconds(Limits.readSecondsMax))
    }

    @Test("reads that wait when the store stops get a reply")
    func ending() throws {
        var holder = try holder("schedule_runs")
        let pages = Mailbox<Result<ListPage<JobRecord, JobKindTag>, StoreError>>()
        for _ in 0..<20 { node.store.jobs.jobs(JobQuery(tenant: "acme")) { pages.send($0) } }
        try eventually("lists wait") { try blockedCount() > 0 }
        node.store.reads.close()
        try holder.execute(script: "ROLLBACK")
        node.store.stop()
        #expect(pages.take().count == 20)
        node.store.jobs.jobs(JobQuery(tenant: "acme")) { pages.send($0) }
        #expect(throws: StoreError.unavailable) { try pages.take().first?.get() }
    }
}
