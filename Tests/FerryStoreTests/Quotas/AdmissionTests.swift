import FerryCore
import Sys
import TestSupport
import TestThreads
import Testing

@testable import FerryStore

@Suite("Admission", .onOwnThread)
struct AdmissionTests {
    /// Counts a tenant; the next count may begin `seconds` later.
    private func count(_ jobs: Int64, of tenant: String, _ admission: Admission, seconds: Double = 500) {
        let number = admission.beginCount(of: tenant)
        admission.note(jobs, of: tenant, number, nanoseconds: Int64(seconds * 1e8))
    }

    private func admission(
        _ jobCountMax: Int64, total: Int64, _ quotas: TenantQuotas = TenantQuotas()
    ) -> Admission {
        let admission = Admission(jobCountMax: jobCountMax, quotas: quotas)
        admission.note(total: total, admission.beginTotal(), hasPeers: false)
        return admission
    }

    private func needsCount(_ verdict: Admission.Verdict) -> Bool {
        if case .needsCount = verdict { true } else { false }
    }

    private func refusal(_ verdict: Admission.Verdict) -> StoreError? {
        if case .refused(let error) = verdict { error } else { nil }
    }

    @Test("no tenant is counted while all tenants together are below the limit of one")
    func loose() throws {
        let admission = admission(10, total: 3)
        #expect(admission.admit(7, of: "a") == .admitted)
        #expect(needsCount(admission.admit(1, of: "a")), "jobs in flight count")
        admission.settle(7, of: "a", isCommitted: false)
        #expect(admission.admit(7, of: "b") == .admitted)
        admission.settle(7, of: "b", isCommitted: true)
        #expect(needsCount(admission.admit(1, of: "b")), "committed jobs count until the next heartbeat")
        admission.note(total: 2, admission.beginTotal(), hasPeers: false)
        #expect(admission.admit(1, of: "b") == .admitted)
    }

    @Test("after a count, tenants above the limit are refused and others are not")
    func tight() throws {
        let admission = admission(10, total: 12)
        for (tenant, jobs) in [("a", Int64(9)), ("b", 3)] { count(jobs, of: tenant, admission) }
        #expect(admission.admit(1, of: "a") == .admitted)
        #expect(needsCount(admission.admit(1, of: "a")), "an earlier job may have ended")
        count(10, of: "a", admission)
        guard case .tooManyJobs(10, let wait)? = refusal(admission.admit(1, of: "a")) else {
            Issue.record("a job was admitted")
            return
        }
        #expect(wait > 400 && wait < 500.2)
        #expect(refusal(admission.admit(8, of: "b")) != nil && admission.admit(7, of: "b") == .admitted)
        #expect(needsCount(admission.admit(1, of: "c")), "never counted")
    }

    @Test("jobs that are in flight when a count begins are added to it, whether it has seen them or not")
    func inFlight() throws {
        let admission = admission(10, total: 12)
        count(0, of: "a", admission)
        #expect(admission.admit(4, of: "a") == .admitted)
        let number = admission.beginCount(of: "a")
        #expect(admission.admit(3, of: "a") == .admitted)
        admission.settle(4, of: "a", isCommitted: true)
        admission.note(0, of: "a", number, nanoseconds: 0)
        #expect(admission.admit(3, of: "a") == .admitted)
        #expect(needsCount(admission.admit(1, of: "a")))
        admission.settle(3, of: "a", isCommitted: false)
        #expect(admission.admit(3, of: "a") == .admitted, "what was not inserted does not count")
    }

    @Test("of two counts of a tenant the one that has begun last counts")
    func overlapping() throws {
        let admission = admission(10, total: 12)
        let first = admission.beginCount(of: "a")
        let second = admission.beginCount(of: "a")
        admission.note(2, of: "a", second, nanoseconds: 0)
        admission.note(10, of: "a", first, nanoseconds: 0)
        #expect(admission.admit(8, of: "a") == .admitted)
    }

    @Test("a limit of the tenant applies although others have none; the lower of two limits is named")
    func ownLimit() throws {
        let quotas = TenantQuotas()
        let limits = ["a": TenantLimits(jobCountMax: 5), "b": TenantLimits(jobCountMax: 500)]
        _ = quotas.apply(
            limits.mapValues { .init(limits: $0) }, reading: quotas.beginReading(), at: .distantPast)
        let admission = admission(100, total: 0, quotas)
        #expect(needsCount(admission.admit(1, of: "a")))
        count(5, of: "a", admission)
        guard case .quotaExceeded(.unfinishedJobs, 5, _)? = refusal(admission.admit(1, of: "a")) else {
            Issue.record("a job was admitted, or refused for another reason")
            return
        }
        count(100, of: "b", admission)
        guard case .tooManyJobs(100, _)? = refusal(admission.admit(1, of: "b")) else {
            Issue.record("a job was admitted, or refused for another reason")
            return
        }
        #expect(admission.admit(50, of: "c") == .admitted)
    }

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
        guard case .failure(.tooManyJobs(5, let seconds)) = node.submit([newJob()]) else {
            Issue.record("a sixth job was accepted")
            return
        }
        // Ten times the duration of a count, which its statement's limit bounds.
        #expect(seconds > 0 && seconds < 700)
        #expect(try node.submit([newJob(tenant: "other")]).get().jobs.count == 1)
        // The last count may be from before the other one's job.
        try eventually("both are counted") {
            try wait { node.store.tenantCounts.tenants(reply: $0) }.get().map(\.tenant) == ["acme", "other"]
        }
        let jobs = try wait { node.store.jobs.jobs(JobQuery(tenant: "acme"), reply: $0) }.get().records
        for job in jobs.prefix(4) {
            _ = try wait { node.store.jobCommands.cancel(job.id, tenant: "acme", reply: $0) }.get()
        }
        eventually("there is room again") { (try? node.submit([newJob()]).get()) != nil }
    }

    /// Submits 12 single jobs and 4 batches of 3 at once.
    private func submitAtOnce(_ node: TestNode) -> (accepted: Int, refusals: [StoreError]) {
        let results = Mailbox<Result<Submission.Accepted, StoreError>>()
        let batches = (0..<16).map { number in
            (0..<(number % 4 == 0 ? 3 : 1)).map { _ in newJob() }
        }
        for jobs in batches {
            node.store.submissions.submit(Submission(jobs: jobs, idempotency: nil) { results.send($0) })
        }
        var all: [Result<Submission.Accepted, StoreError>] = []
        eventually("all are answered") {
            all += results.wait(milliseconds: 100)
            return all.count == batches.count
        }
        let accepted = all.reduce(0) { $0 + ((try? $1.get().jobs.count) ?? 0) }
        return (accepted, all.compactMap { if case .failure(let error) = $0 { error } else { nil } })
    }

    @Test("of submissions at the same time a node accepts exactly as many jobs as the limit allows")
    func exact() throws {
        for isOwn in [false, true] {
            let database = try TestDatabase(template: template)
            let node = try TestNode(database.url, slots: 0) { if !isOwn { $0.jobCountMax = 5 } }
            defer { node.store.stop() }
            if isOwn { try node.limit("acme", TenantLimits(jobCountMax: 5)) }
            var accepted = 0
            // Batches may leave room; single jobs fill it.
            for _ in 0..<3 {
                let outcome = submitAtOnce(node)
                accepted += outcome.accepted
                for error in outcome.refusals {
                    switch error {
                    case .tooManyJobs(5, _): #expect(!isOwn)
                    case .quotaExceeded(.unfinishedJobs, 5, _): #expect(isOwn)
                    default: Issue.record("\(error)")
                    }
                }
            }
            #expect(accepted == 5)
            #expect(try countedStates(database.url) == ["queued": 5])
            #expect(node.store.submissions.waitingCount == 0)
            let jobs = try wait { node.store.jobs.jobs(JobQuery(tenant: "acme"), reply: $0) }.get().records
            _ = try wait { node.store.jobCommands.cancel(jobs[0].id, tenant: "acme", reply: $0) }.get()
            eventually("there is room for one") { (try? node.submit([newJob()]).get()) != nil }
            #expect((try? node.submit([newJob()]).get()) == nil)
        }
    }

    @Test("a tenant whose jobs end is not refused because of those that have ended")
    func turnover() throws {
        let database = try TestDatabase(template: template)
        let node = try TestNode(database.url, slots: 0)
        defer { node.store.stop() }
        try node.limit("acme", TenantLimits(jobCountMax: 2))
        for _ in 0..<20 {
            let job = newJob()
            // On a busy machine a count takes so long that the next one may begin only later than a
            // submission waits for it.
            try eventually("it is accepted") {
                do throws(StoreError) {
                    _ = try node.submit([job]).get()
                    return true
                } catch {
                    guard case .quotaExceeded(.unfinishedJobs, 2, let seconds) = error,
                        seconds * 1e9 >= Double(Admission.patience)
                    else { throw error }
                    return false
                }
            }
            _ = try wait { node.store.jobCommands.cancel(job.id, tenant: "acme", reply: $0) }.get()
        }
        #expect(node.store.metrics.surplusJobs == 0)
    }
}
