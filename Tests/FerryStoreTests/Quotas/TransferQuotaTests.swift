import FerryCore
import FerryStore
import Postgres
import Sys
import TestSupport
import TestThreads
import Testing

@Suite("Bytes of a tenant in a day", .onOwnThread)
struct TransferQuotaTests {
    let database: TestDatabase

    init() throws { database = try TestDatabase(template: template) }

    /// Ends an attempt that has made one request with these bytes.
    private func end(
        _ node: TestNode, _ attempt: Attempt, _ outcome: AttemptResult.Outcome, sent: Int64 = 0,
        received: Int64 = 0
    ) {
        var one = TransactionMetrics(fetchStart: 0)
        (one.byteCounts.requestBody, one.byteCounts.responseBody) = (sent, received)
        var log = TransactionLog()
        log.append(one)
        let trace = AttemptTrace(
            startedAt: attempt.startedAt, finishedAt: attempt.startedAt + 0.001, transactions: log)
        node.store.dispatcher.record(
            AttemptResult(
                attempt: attempt, outcome: outcome, response: nil, bytesReceived: received, bytesSent: sent,
                trace: trace))
    }

    private func sum(_ tenant: String) throws -> Int64 {
        var connection = try Connection(url: database.url)
        let sum = Statement(
            "sum", "SELECT coalesce(sum(bytes), 0)::bigint FROM tenant_transfers WHERE tenant = '\(tenant)'")
        return try connection.execute(sum).int64(0, 0)
    }

    @Test("the bytes of every ended attempt count, failed ones too, of tenants that have this limit")
    func counted() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        try node.limit("acme", TenantLimits(bytesPerDay: 1_000_000))
        try node.limit("other", TenantLimits(jobCountMax: 1_000))
        let job = try node.submit(newJob(attemptCountMax: 5))
        end(node, try node.attempt(), failure(), sent: 100, received: 7)
        end(node, try node.attempt(), success, sent: 100, received: 300)
        node.waitUntilFinished(job.id)
        let other = try node.submit(newJob(tenant: "other"))
        end(node, try node.attempt(), success, received: 5)
        node.waitUntilFinished(other.id)
        #expect(try sum("acme") == 507 && sum("other") == 0)
    }

    @Test("beyond the limit submissions are refused and accepted jobs wait; running ones end, others begin")
    func usedUp() throws {
        let node = try TestNode(database.url, slots: 1)
        defer { node.store.stop() }
        try node.limit("acme", TenantLimits(bytesPerDay: 1_000))
        let first = try node.submit(newJob())
        let attempt = try node.attempt()
        let next = try node.submit(newJob())
        let other = try node.submit(newJob(tenant: "other"))
        end(node, attempt, success, received: 1_000)
        node.waitUntilFinished(first.id)
        // The slot goes to the other tenant although the first one's job was there before.
        let second = try node.attempt()
        #expect(second.job == other.id)
        guard case .failure(.quotaExceeded(.bytesPerDay, 1_000, let seconds)) = node.submit([newJob()]) else {
            Issue.record("a submission was accepted, or refused for another reason")
            return
        }
        #expect(seconds > 0 && seconds <= 86_400)
        end(node, second, success, received: 5_000)
        node.waitUntilFinished(other.id)
        let record = try node.job(next.id).get().record
        let reason = WaitingReason(record, queue: node.store.queueConditions)
        #expect(record.state == .queued && reason?.code == .tenantQuota)
        let midnight = try #require(reason?.nextCheckAt)
        #expect(midnight.microseconds % 86_400_000_000 == 0)
        #expect(midnight > Timestamp(microseconds: Sys.wallMicroseconds()))
        // The limit is raised.
        try node.limit("acme", TenantLimits(bytesPerDay: 1_001))
        #expect(try node.attempt().job == next.id)
    }

    @Test("every node counts the bytes of all; jobs that wait for the next day begin with it")
    func nextDay() throws {
        let node = try TestNode(database.url, slots: 1) { $0.heartbeatSeconds = 0.2 }
        defer { node.store.stop() }
        let other = try TestNode(database.url, isWorker: false) { $0.heartbeatSeconds = 0.2 }
        defer { other.store.stop() }
        try node.limit("acme", TenantLimits(bytesPerDay: 10))
        let first = try node.submit(newJob())
        let attempt = try node.attempt()
        let next = try node.submit(newJob())
        end(node, attempt, success, received: 10)
        node.waitUntilFinished(first.id)
        eventually("the other node refuses jobs") {
            other.store.quotas.usedUpUntil("acme", at: Timestamp(microseconds: Sys.wallMicroseconds())) != nil
        }
        guard case .failure(.quotaExceeded(.bytesPerDay, 10, _)) = other.submit([newJob()]) else {
            Issue.record("a submission was accepted, or refused for another reason")
            return
        }
        #expect(try node.job(next.id).get().record.state == .queued)
        // For the database another day begins.
        var connection = try Connection(url: database.url)
        try connection.execute(script: "UPDATE tenant_transfers SET since = since - interval '1 day'")
        #expect(try node.attempt().job == next.id)
        eventually("the other node accepts jobs") { (try? other.submit([newJob()]).get()) != nil }
    }
}
