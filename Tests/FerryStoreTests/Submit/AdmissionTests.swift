import FerryCore
import Sys
import TestSupport
import TestThreads
import Testing

@testable import FerryStore

@Suite("Admission", .onOwnThread)
struct AdmissionTests {
    private func tenant(_ name: String, _ queued: Int64) -> TenantStatus {
        TenantStatus(tenant: name, waiting: 0, queued: queued, running: 0, suspended: 0)
    }

    @Test("no job is refused while all tenants together are below the limit of one")
    func loose() {
        let admission = Admission(jobCountMax: 10)
        admission.note(total: 3)
        #expect(admission.admit(7, of: "a") == nil)
    }

    @Test("after a count, tenants above the limit are refused and others are not")
    func tight() throws {
        let admission = Admission(jobCountMax: 10)
        admission.note(total: 12)
        #expect(!admission.needsCount, "no submission has needed a count")
        #expect(admission.admit(1, of: "a") == nil, "not counted yet")
        #expect(admission.needsCount)
        admission.note([tenant("a", 9), tenant("b", 3)], nextAt: monotonicNanoseconds() + 500_000_000_000)
        #expect(admission.admit(1, of: "a") == nil)
        let wait = try #require(admission.admit(1, of: "a"))
        #expect(wait > 400 && wait < 500.2)
        #expect(admission.admit(8, of: "b") != nil && admission.admit(7, of: "b") == nil)
        #expect(admission.admit(10, of: "c") == nil && admission.admit(1, of: "c") != nil)
        admission.note(total: 2)
        #expect(admission.admit(1, of: "a") == nil)
    }

    /// Its first heartbeat after a submission may have counted before it, and forgets who was counted since;
    /// once the second one has come that is over.
    private func limitedNode(_ database: TestDatabase) throws -> TestNode {
        try TestNode(database.url, slots: 0) {
            $0.jobCountMax = 5
            $0.heartbeatSeconds = 0.1
        }
    }

    @Test("a repeated submission gets its first reply, even if the tenant has too many jobs by then")
    func repeated() throws {
        let database = try TestDatabase(template: template)
        let node = try limitedNode(database)
        defer { node.store.stop() }
        let jobs = (0..<5).map { _ in newJob() }
        _ = try node.submit(jobs, key: key("a")).get()
        try node.waitForBeats(2, database.url)
        eventually("the tenant is counted") {
            node.store.control.context.admission.admit(1, of: "acme") != nil
        }
        let again = try node.submit((0..<5).map { _ in newJob() }, key: key("a")).get()
        #expect(again.isReplay && again.jobs.map(\.id) == jobs.map(\.id))
        guard case .failure(.idempotencyKeyReused) = node.submit([newJob()], key: key("a", fingerprint: 2)),
            case .failure(.tooManyJobs(5, _)) = node.submit([newJob()], key: key("b"))
        else {
            Issue.record("another submission was accepted, or refused for another reason")
            return
        }
        #expect(node.store.metrics.surplusJobs == 1 && node.store.submissions.waitingCount == 0)
        #expect(try countedStates(database.url) == ["queued": 5])
    }

    @Test("a tenant at its limit is refused until some of its jobs have ended")
    func refused() throws {
        let database = try TestDatabase(template: template)
        let node = try limitedNode(database)
        defer { node.store.stop() }
        _ = try node.submit((0..<5).map { _ in newJob() }).get()
        _ = try node.submit([newJob(tenant: "other")]).get()
        try node.waitForBeats(2, database.url)
        eventually("the tenant is counted") {
            node.store.control.context.admission.admit(1, of: "acme") != nil
        }
        guard case .failure(.tooManyJobs(5, let seconds)) = node.submit([newJob()]) else {
            Issue.record("a sixth job was accepted")
            return
        }
        // Ten times what the census has taken, which its statement's limit bounds.
        #expect(seconds > 0 && seconds < 700)
        #expect(try node.submit([newJob(tenant: "other")]).get().jobs.count == 1)
        // The last census may be from before the other one's job.
        try eventually("both are counted") {
            try wait { node.store.tenantCounts.tenants(reply: $0) }.get().map(\.tenant) == ["acme", "other"]
        }
        let jobs = try wait { node.store.control.jobs(JobQuery(tenant: "acme"), reply: $0) }.get().records
        for job in jobs.prefix(4) {
            _ = try wait { node.store.control.cancel(job.id, tenant: "acme", reply: $0) }.get()
        }
        eventually("there is room again") { (try? node.submit([newJob()]).get()) != nil }
    }
}
