import FerryCore
import FerryStore
import Postgres
import Synchronization
import Sys
import TestSupport
import TestThreads
import Testing

@Suite("Dependencies", .onOwnThread)
struct DependencyTests {
    let database: TestDatabase

    init() throws { database = try TestDatabase(template: template) }

    private func job(
        on dependencies: [JobID], _ policy: JobSpec.DependencyFailure = .fail, beginAt: Timestamp? = nil,
        webhook: Bool = false
    ) -> NewJob {
        let plain = newJob(beginAt: beginAt, webhook: webhook)
        var spec = plain.spec
        spec.schedule.dependencies = dependencies.map(JobDependency.job)
        spec.schedule.onDependencyFailure = policy
        return plain.with(spec)
    }

    /// Submits like the API: dependencies are prepared first, unless they are in the same submission.
    private func submit(_ jobs: [NewJob], to node: TestNode, key: Submission.Idempotency? = nil) throws {
        let own = Set(jobs.map(\.id))
        let others = Set(jobs.flatMap(\.spec.schedule.dependsOn)).subtracting(own)
        // Retried, since it fails while other transactions hold the rows for long.
        let missing = try insist {
            node.store.dependencies.prepareDependencies(Array(others), tenant: "acme", reply: $0)
        }
        try #require(missing.isEmpty)
        _ = try node.submit(jobs, key: key).get()
    }

    private func becomes(_ state: JobState, _ id: JobID, _ node: TestNode) throws -> JobRecord {
        eventually("\(id) becomes \(state)") { (try? node.job(id).get().record.state) == state }
        return try node.job(id).get().record
    }

    private func rows(_ sql: String) throws -> Int64 {
        var connection = try Connection(url: database.url)
        return try connection.execute(Statement("rows", sql)).int64(0, 0)
    }

    @Test("a job lists its unfinished dependencies and begins when the last one has ended")
    func all() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let (first, second) = (newJob(), newJob())
        _ = try node.submit([first, second]).get()
        let attempts = try node.attempts(2)
        let last = job(on: [first.id, second.id])
        try submit([last], to: node)
        let waiting = try node.job(last.id).get().record
        #expect(waiting.state == .waiting && waiting.waitingFor == .dependency)
        #expect(Set(waiting.pendingDependencies) == [first.id, second.id] && waiting.nextAttemptAt == nil)
        for attempt in attempts where attempt.job == first.id { node.end(attempt, success) }
        eventually("one is left") {
            (try? node.job(last.id).get().record.pendingDependencies) == [second.id]
        }
        let listed = try wait {
            node.store.jobs.jobs(JobQuery(tenant: "acme", states: [.waiting]), reply: $0)
        }.get().records
        #expect(listed.map(\.pendingDependencies) == [[second.id]])
        for attempt in attempts where attempt.job == second.id { node.end(attempt, success) }
        #expect(try node.attempt().job == last.id)
        let status = try node.status()
        #expect(status.waiting == 0 && status.queued == 0 && status.running == 1)
    }

    @Test("a dependency that ended before the submission counts, also if it failed or was deleted")
    func ended() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let (good, bad, gone) = (newJob(), newJob(), newJob())
        _ = try node.submit([good, bad, gone]).get()
        for attempt in try node.attempts(3) {
            let isBad = attempt.job == bad.id
            node.store.dispatcher.record(result(attempt, isBad ? failure(isRetryable: false) : success))
        }
        for id in [good.id, gone.id] { _ = try becomes(.succeeded, id, node) }
        _ = try becomes(.failed, bad.id, node)
        let (fine, failing, ignoring) = (
            job(on: [good.id]), job(on: [good.id, bad.id]), job(on: [bad.id], .ignore)
        )
        try submit([fine, failing, ignoring], to: node)
        let orphan = job(on: [gone.id])
        let missing = wait {
            node.store.dependencies.prepareDependencies([gone.id], tenant: "other", reply: $0)
        }
        #expect(try missing.get() == [gone.id], "another tenant's job is not there")
        // Deleted between the check and the submission.
        _ = try wait { node.store.jobCommands.delete(gone.id, tenant: "acme", reply: $0) }.get()
        _ = try node.submit(orphan)
        #expect(Set(try node.attempts(2).map(\.job)) == [fine.id, ignoring.id])
        let record = try becomes(.failed, failing.id, node)
        let error = try #require(record.error)
        #expect(error.code.choice == .dependencyFailed && error.errorClass.choice == .dependency)
        #expect(error.message.contains("\(bad.id)"))
        let lost = try #require(try becomes(.failed, orphan.id, node).error)
        #expect(lost.message.contains("was deleted"))
    }

    @Test("a failure fails a chain of 150 dependents, each with its event, and updates the counts")
    func chain() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let first = newJob()
        _ = try node.submit(first)
        let attempt = try node.attempt()
        var chain: [NewJob] = []
        for _ in 0..<150 { chain.append(job(on: [chain.last?.id ?? first.id], webhook: true)) }
        try submit(chain, to: node)
        #expect(try node.status().waiting == 150)
        node.store.dispatcher.record(result(attempt, failure(isRetryable: false)))
        let last = try #require(chain.last)
        let record = try becomes(.failed, last.id, node)
        let message = record.error?.message
        #expect(message?.contains("\(chain[148].id)") == true)
        #expect(try node.status().waiting == 0)
        eventually("each dependent has a delivery") { (try? node.status().deliveriesPending) == 150 }
        #expect(try rows("SELECT count(*) FROM job_dependencies") == 0)
        #expect(try rows("SELECT count(*) FROM dependency_outbox") == 0)
    }

    @Test("dependents of cancelled and expired jobs are resolved, and keep their begin dates")
    func others() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let later = Timestamp(microseconds: Sys.wallMicroseconds() + 3_600_000_000)
        let cancelled = newJob(beginAt: later)
        let overdue = newJob(beginAt: later, timeoutForResource: 0.2)
        _ = try node.submit([cancelled, overdue]).get()
        let (failing, timed) = (job(on: [cancelled.id]), job(on: [cancelled.id], .ignore, beginAt: later))
        try submit([failing, timed, job(on: [overdue.id])], to: node)
        _ = try wait { node.store.jobCommands.cancel(cancelled.id, tenant: "acme", reply: $0) }.get()
        _ = try becomes(.failed, failing.id, node)
        eventually("it waits for its date") {
            (try? node.job(timed.id).get().record.waitingFor) == .beginDate
        }
        #expect(try node.job(timed.id).get().record.nextAttemptAt == later)
    }

    @Test("1,500 dependents of one job are resolved in several transactions", arguments: [true, false])
    func many(succeeds: Bool) throws {
        let node = try TestNode(database.url, slots: 1)
        defer { node.store.stop() }
        let first = newJob()
        _ = try node.submit([first]).get()
        let attempt = try node.attempt()
        // 1,500 dependents in all: exactly three transactions.
        for count in [1_203, 297] {
            try submit((0..<count).map { _ in job(on: [first.id]) }, to: node)
        }
        node.end(attempt, succeeds ? success : failure(isRetryable: false))
        try eventually("no job waits") {
            try rows("SELECT count(*) FROM jobs WHERE state = 'waiting'") == 0
        }
        #expect(try rows("SELECT count(*) FROM job_dependencies") == 0)
        let ended = try rows("SELECT count(*) FROM finished_jobs WHERE state = 'failed'")
        let left = try rows("SELECT count(*) FROM jobs")
        #expect(succeeds ? (ended, left) == (0, 1_500) : (ended, left) == (1_501, 0))
        try eventually("dependency_outbox is empty") {
            try rows("SELECT count(*) FROM dependency_outbox") == 0
        }
    }

    @Test("a resumed job waits for its dependency again, and a suspended one fails with its dependency")
    func suspended() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let (good, bad) = (newJob(), newJob())
        _ = try node.submit([good, bad]).get()
        let attempts = try node.attempts(2)
        let (first, second, third) = (job(on: [good.id]), job(on: [good.id]), job(on: [bad.id]))
        try submit([first, second, third], to: node)
        for job in [first, second, third] {
            _ = try wait { node.store.jobCommands.suspend(job.id, tenant: "acme", reply: $0) }.get()
        }
        let resumed = try wait { node.store.jobCommands.resume(first.id, tenant: "acme", reply: $0) }.get()
        #expect(resumed.state == .waiting && resumed.waitingFor == .dependency)
        for attempt in attempts {
            node.store.dispatcher.record(
                result(attempt, attempt.job == good.id ? success : failure(isRetryable: false)))
        }
        #expect(try node.attempt().job == first.id)
        _ = try becomes(.failed, third.id, node)
        #expect(try node.job(second.id).get().record.state == .suspended)
        let free = try wait { node.store.jobCommands.resume(second.id, tenant: "acme", reply: $0) }.get()
        // The job may begin before it is read.
        #expect(free.state == .queued || free.state == .running)
        #expect(try node.attempt().job == second.id)
        #expect(try node.status().suspended == 0)
    }

    @Test("a repeated submission adds no dependencies and gets the first reply")
    func replay() throws {
        let node = try TestNode(database.url, isWorker: false)
        defer { node.store.stop() }
        let first = newJob()
        _ = try node.submit(first)
        let dependent = job(on: [first.id])
        try submit([dependent], to: node, key: key("a"))
        let again = job(on: [first.id])
        let accepted = try node.submit([again], key: key("a")).get()
        #expect(accepted.isReplay && accepted.jobs.map(\.id) == [dependent.id])
        #expect(accepted.jobs.map(\.waitingFor) == [.dependency])
        #expect(try rows("SELECT count(*) FROM job_dependencies") == 1)
        #expect(try node.status().waiting == 1)
    }

    /// Jobs that have ended, and jobs that began too early.
    private struct Ledger {
        var ended: Set<JobID> = []
        var early: [JobID] = []
        var succeeded: Set<JobID> = []
    }

    @Test(
        "in random graphs each job runs once, after its dependencies, or fails because of one",
        arguments: UInt64(0)..<6)
    func property(_ seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        let nodes = [try TestNode(database.url, slots: 3), try TestNode(database.url, slots: 2)]
        defer { nodes.forEach { $0.store.stop() } }
        let fails = Mutex<Set<JobID>>([])
        let ledger = Mutex(Ledger())
        for node in nodes {
            node.runner.react { attempt in
                let isFailing = fails.withLock { $0.contains(attempt.job) }
                ledger.withLock { ledger in
                    if !ledger.ended.isSuperset(of: attempt.spec.schedule.dependsOn),
                        attempt.spec.schedule.onDependencyFailure == .fail
                    {
                        ledger.early.append(attempt.job)
                    }
                    ledger.ended.insert(attempt.job)
                    if !isFailing { ledger.succeeded.insert(attempt.job) }
                }
                node.store.dispatcher.record(
                    result(attempt, isFailing ? failure(isRetryable: false) : success))
            }
        }
        var jobs: [NewJob] = []
        while jobs.count < 80 {
            var batch: [NewJob] = []
            for _ in 0..<Int.random(in: 1...6, using: &random) {
                let earlier = (jobs + batch).suffix(12)
                let count = min(earlier.count, Int.random(in: 0...3, using: &random))
                let chosen = earlier.shuffled(using: &random).prefix(count).map(\.id)
                let next = job(on: chosen, Int.random(in: 0..<4, using: &random) == 0 ? .ignore : .fail)
                if Int.random(in: 0..<6, using: &random) == 0 { fails.withLock { _ = $0.insert(next.id) } }
                batch.append(next)
            }
            try submit(batch, to: nodes[Int.random(in: 0...1, using: &random)])
            jobs += batch
        }
        eventually("all have ended") {
            guard let status = try? nodes[0].status() else { return false }
            return status.waiting + status.queued + status.running == 0
        }
        let willFail = fails.withLock { $0 }
        var expected: [JobID: JobState] = [:]
        for job in jobs {
            let schedule = job.spec.schedule
            let isHeldBack =
                schedule.onDependencyFailure == .fail
                && schedule.dependsOn.contains { expected[$0] != .succeeded }
            expected[job.id] = isHeldBack || willFail.contains(job.id) ? .failed : .succeeded
            #expect(try nodes[0].job(job.id).get().record.state == expected[job.id], "\(job.id)")
        }
        #expect(ledger.withLock { $0.early } == [])
        #expect(ledger.withLock { $0.succeeded } == Set(expected.filter { $0.value == .succeeded }.keys))
        // A job that failed for one dependency waits for no other, but the rows about those may still come.
        try eventually("no dependency is left") { try rows("SELECT count(*) FROM job_dependencies") == 0 }
    }
}
