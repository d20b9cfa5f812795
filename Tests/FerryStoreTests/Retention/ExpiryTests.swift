import FerryCore
import Postgres
import Sys
import TestSupport
import TestThreads
import Testing

@testable import FerryStore

@Suite("Expired jobs", .onOwnThread)
struct ExpiryTests {
    let database: TestDatabase

    init() throws { database = try TestDatabase(template: template) }

    @Test("1,203 expired jobs end in batches, between which heartbeats can run")
    func batches() throws {
        let node = try TestNode(database.url)
        let later = Timestamp(microseconds: Sys.wallMicroseconds() + 3_600_000_000)
        _ = try node.submit((0..<1_203).map { _ in newJob(beginAt: later) }).get()
        // The node's own threads have ended.
        node.store.stop()
        var connection = try Connection(url: database.url)
        try connection.execute(script: "UPDATE jobs SET expires_at = now() - interval '1 second'")
        let left = Statement("left", "SELECT count(*) FROM jobs")
        let reaperDatabase = node.store.heartbeat.makeConnection()
        let reaper = Reaper(
            node.store.context, node.store.signals, node.store.heartbeat.deliveryReclaimer)
        var counts: [Int64] = []
        var isAll = false
        while !isAll, counts.count < 9 {
            isAll = try reaper.expire(reaperDatabase, until: 0)
            counts.append(try connection.execute(left).int64(0, 0))
        }
        #expect(counts == [703, 203, 0])
        let failed = Statement("failed", "SELECT count(*) FROM finished_jobs WHERE state = 'failed'")
        #expect(try connection.execute(failed).int64(0, 0) == 1_203)
        #expect(try reaper.expire(reaperDatabase, until: .max))
    }

    @Test("a waiting job fails at its deadline, original or edited, and not at the next heartbeat")
    func inTime() throws {
        // The next heartbeat comes after `eventually` has given up.
        let node = try TestNode(database.url, leaseSeconds: 3_000) { $0.heartbeatSeconds = 1_000 }
        defer { node.store.stop() }
        let now = Timestamp(microseconds: Sys.wallMicroseconds())
        let deadline = now + 0.5
        let given = try node.submit(newJob(beginAt: now + 3_600, deadlineAt: deadline)).id
        eventually("the job has failed") { (try? node.job(given).get().record.state) == .failed }
        let set = try node.submit(newJob(beginAt: now + 3_600)).id
        _ = try wait { reply in
            node.store.jobCommands.edit(
                set, tenant: "acme", revision: nil,
                { draft throws(InvalidFields) in
                    var draft = draft
                    draft.spec.schedule.deadlineAt = deadline
                    return draft
                }, reply: reply)
        }.get()
        eventually("the edited job has failed") { (try? node.job(set).get().record.state) == .failed }
        for id in [given, set] {
            let record = try node.job(id).get().record
            let error = try #require(record.error)
            #expect(error.code.choice == .deadlineExceeded)
            #expect(try #require(record.finishedAt) >= deadline)
        }
    }

    @Test("an error while jobs expire does not stop the sweep of counts")
    func sweep() throws {
        let node = try TestNode(database.url, isWorker: false)
        _ = try node.submit(newJob())
        node.store.stop()
        var connection = try Connection(url: database.url)
        try connection.execute(
            script: """
                UPDATE jobs SET expires_at = now() - interval '1 second';
                ALTER TABLE finished_jobs ADD CONSTRAINT nobody_ends CHECK (false);
                INSERT INTO job_counts (shard) VALUES ('a connection that is gone/1')
                """)
        let reaperDatabase = node.store.heartbeat.makeConnection()
        let reaper = Reaper(
            node.store.context, node.store.signals, node.store.heartbeat.deliveryReclaimer)
        #expect(throws: PostgresError.self) { _ = try reaper.expireAndSweep(reaperDatabase, until: .max) }
        let left = Statement("left", "SELECT count(*) FROM job_counts WHERE shard LIKE 'a connection%'")
        #expect(try connection.execute(left).int64(0, 0) == 0)
    }
}
