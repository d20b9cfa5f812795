import FerryCore
import Postgres
import Sys
import TestSupport
import TestThreads
import Testing

@testable import FerryStore

@Suite("Unique jobs", .onOwnThread)
struct UniqueJobTests {
    private let database: TestDatabase

    init() throws { database = try TestDatabase(template: template) }

    private func job(
        _ key: String?, for term: UniqueRule.Term = .unfinished, tenant: String = "acme",
        retrying source: JobID? = nil, change: (inout JobSpec) -> Void = { _ in }
    ) -> NewJob {
        var spec = newJob(attemptCountMax: 1).spec
        if let key {
            var rule = UniqueRule()
            (rule.key, rule.term) = (key, term)
            spec.unique = rule
        }
        change(&spec)
        return NewJob(
            id: TestNode.identifiers.make(), tenant: tenant, JobRequest(spec),
            specJSON: spec.encodeStored(), sealedSecrets: nil, traceparent: nil, retryOf: source)
    }

    private func submit(_ node: TestNode, _ job: NewJob) throws -> Submission.Accepted.Job {
        try node.submit(job)
    }

    @Test("while a job with the key is unfinished, a submission gets that job; a failed one frees the key")
    func unfinished() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let first = job("night")
        #expect(try submit(node, first).isNew)
        let attempt = try node.attempt()
        #expect(attempt.job == first.id)
        let again = try submit(node, job("night", for: .seconds(60)))
        #expect(again.id == first.id && !again.isNew && again.state == .running)
        // Other keys, other tenants and jobs without a key are not concerned.
        #expect(try submit(node, job("other")).isNew)
        #expect(try submit(node, job("night", tenant: "umbrella")).isNew)
        #expect(try submit(node, job(nil)).isNew)
        node.end(attempt, failure(isRetryable: false))
        node.waitUntilFinished(first.id)
        #expect(try submit(node, job("night", for: .seconds(60))).isNew)
        #expect(try node.job(first.id).get().record.spec?.unique?.key == "night")
    }

    @Test("a succeeded job has its key for the seconds of the later submission, and not once it is deleted")
    func succeeded() throws {
        let node = try TestNode(database.url, slots: 8)
        defer { node.store.stop() }
        let first = job("night")
        _ = try submit(node, first)
        node.end(try node.attempt(), success)
        #expect(try submit(node, job("night", for: .seconds(60))).id == first.id)
        var connection = try Connection(url: database.url)
        try connection.execute(
            script: "UPDATE finished_jobs SET finished_at = finished_at - interval '100 seconds'")
        #expect(try submit(node, job("night", for: .seconds(200))).id == first.id)
        let second = job("night", for: .seconds(60))
        #expect(try submit(node, second).isNew)
        // The unfinished job goes first.
        #expect(try submit(node, job("night", for: .seconds(200))).id == second.id)
        node.end(try node.attempt(), success)
        for id in [first.id, second.id] {
            _ = try wait { node.store.jobCommands.delete(id, tenant: "acme", reply: $0) }.get()
        }
        #expect(try submit(node, job("night", for: .seconds(604_800))).isNew)
        let rest = try node.attempt()
        node.end(rest, success)
        #expect(try submit(node, job("night")).isNew, "only an unfinished job has the key")
    }

    @Test("a batch gets the existing jobs in their places, also of its own keys, and refers to them")
    func batch() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let existing = job("one")
        _ = try submit(node, existing)
        let attempt = try node.attempt()
        let (repeated, new) = (job("one"), job("two"))
        let same = job("two")
        let dependent = job(nil) {
            $0.schedule.dependencies = [.job(repeated.id), .job(new.id), .job(same.id)]
            ($0.kind, $0.source) = (.upload, .job(repeated.id))
        }
        let reply = try node.submit([repeated, new, same, dependent]).get()
        #expect(reply.jobs.map(\.id) == [existing.id, new.id, new.id, dependent.id])
        #expect(reply.jobs.map(\.isNew) == [false, true, false, true])
        #expect(node.job(repeated.id).failure == .notFound && node.job(same.id).failure == .notFound)
        let waiting = try node.job(dependent.id).get().record
        #expect(waiting.waitingFor == .dependency)
        #expect(waiting.spec?.schedule.dependsOn == [existing.id, new.id])
        #expect(waiting.spec?.source == .job(existing.id))
        node.end(attempt, success)
        node.end(try node.attempt(), success)
        #expect(try node.attempt().job == dependent.id, "the end of both releases it")
        var connection = try Connection(url: database.url)
        #expect(try RowCheck.brokenRules(&connection) == [])
    }

    @Test("an idempotency key repeats jobs and marks, also if the unique key has another job by then")
    func idempotency() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let first = job("one")
        _ = try submit(node, first)
        let jobs = [job("one"), job("two")]
        let reply = try node.submit(jobs, key: key("a")).get()
        #expect(!reply.isReplay && reply.jobs.map(\.isNew) == [false, true])
        for attempt in try node.attempts(2) { node.end(attempt, failure(isRetryable: false)) }
        for id in [first.id, jobs[1].id] { node.waitUntilFinished(id) }
        let replay = try node.submit([job("one"), job("two")], key: key("a")).get()
        #expect(replay.isReplay && replay.jobs.map(\.id) == [first.id, jobs[1].id])
        #expect(replay.jobs.map(\.isNew) == [false, true])
        #expect(node.submit([job("three")], key: key("a", fingerprint: 2)).failure == .idempotencyKeyReused)
        let all = try node.submit([job("one"), job("two")], key: key("b")).get()
        #expect(all.jobs.allSatisfy { $0.isNew })
    }

    @Test("a retry whose key is taken is refused with the job that has it, in operations on many skipped")
    func retries() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let failed = [job("night"), job("other")]
        for job in failed {
            _ = try submit(node, job)
            node.end(try node.attempt(), failure(isRetryable: false))
            node.waitUntilFinished(job.id)
        }
        let holder = job("night")
        _ = try submit(node, holder)
        let retry = job("night", retrying: failed[0].id)
        #expect(node.submit([retry]).failure == .uniqueKeyTaken(holder.id))
        #expect(node.submit([retry], key: key("a")).failure == .uniqueKeyTaken(holder.id))
        let operation = try node.run(.retry, .jobs(failed.reversed().map(\.id)))
        #expect(operation.counts.changed == 1 && operation.counts.reasons == [.uniqueKeyTaken: 1])
        #expect(try node.job(failed[0].id).get().record.retriedBy == nil)
        #expect(try node.job(failed[1].id).get().record.retriedBy != nil)
        // The key is the idempotent request's own, which is repeated.
        node.end(try node.attempts(2).first { $0.job == holder.id } ?? node.attempt(), success)
        let accepted = try node.submit([job("night", retrying: failed[0].id)], key: key("b")).get()
        let replay = try node.submit([job("night", retrying: failed[0].id)], key: key("b")).get()
        #expect(replay.isReplay && replay.jobs.map(\.id) == accepted.jobs.map(\.id))
    }

    @Test("an existing job keeps its group, is found in a closed one, and uses no quota")
    func groupsAndQuotas() throws {
        let node = try TestNode(database.url) { $0.jobCountMax = 1 }
        defer { node.store.stop() }
        let first = job("night") { $0.group = "one" }
        _ = try submit(node, first)
        #expect(try submit(node, job("night") { $0.group = "two" }).id == first.id)
        _ = try node.close("one").get()
        #expect(try submit(node, job("night") { $0.group = "one" }).id == first.id)
        #expect(try node.job(first.id).get().record.group == "one")
        guard case .tooManyJobs? = node.submit([job("other")]).failure else {
            Issue.record("the limit is reached")
            return
        }
        #expect(try node.submit([job("night")], closing: "three").get().jobs.map(\.isNew) == [false])
        try eventually("the group without new jobs is finished") {
            try node.group("three").state == .finished
        }
    }

    @Test("20 submissions at once on two nodes give one job")
    func concurrent() throws {
        let nodes = [try TestNode(database.url), try TestNode(database.url, isWorker: false)]
        defer { nodes.forEach { $0.store.stop() } }
        var other = try Connection(url: database.url)
        try other.execute(script: "BEGIN; SELECT pg_advisory_xact_lock(unique_key_lock('acme', 'night'))")
        let replies = Mailbox<Result<Submission.Accepted, StoreError>>()
        for number in 0..<20 {
            let submission = Submission(
                jobs: [job("night"), job("own \(number)")],
                idempotency: number < 10 ? key("\(number)") : nil
            ) { replies.send($0) }
            nodes[number % 2].store.submissions.submit(submission)
        }
        try eventually("submissions wait for the key") { try isBlocked("submissions", database.url) }
        try other.execute(script: "COMMIT")
        var accepted: [Submission.Accepted] = []
        while accepted.count < 20 {
            accepted += try replies.wait(milliseconds: 60_000).map { try $0.get() }
        }
        #expect(Set(accepted.map { $0.jobs[0].id }).count == 1)
        #expect(accepted.count { $0.jobs[0].isNew } == 1)
        #expect(accepted.allSatisfy { $0.jobs[1].isNew })
        var connection = try Connection(url: database.url)
        #expect(try countedStates(database.url).values.reduce(0, +) == 21)
        #expect(try RowCheck.brokenRules(&connection) == [])
    }
}

extension Result {
    fileprivate var failure: Failure? { if case .failure(let error) = self { error } else { nil } }
}
