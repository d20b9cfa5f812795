import FerryCore
import Postgres
import Sys
import TestSupport
import TestThreads
import Testing

@testable import FerryStore

@Suite("Dependencies on groups", .onOwnThread)
struct GroupDependencyTests {
    let database: TestDatabase

    init() throws { database = try TestDatabase(template: template) }

    private func job(
        in group: String? = nil, on dependencies: [JobDependency] = [],
        _ policy: JobSpec.DependencyFailure = .fail, retrying source: JobID? = nil, isSuspended: Bool = false
    ) -> NewJob {
        var spec = newJob(attemptCountMax: 1).spec
        spec.group = group
        spec.schedule.dependencies = dependencies
        spec.schedule.onDependencyFailure = policy
        spec.startsSuspended = isSuspended
        return NewJob(
            id: TestNode.identifiers.make(), tenant: "acme", JobRequest(spec),
            specJSON: spec.encodeStored(), sealedSecrets: nil, traceparent: nil, retryOf: source)
    }

    private func becomes(_ state: JobState, _ id: JobID, _ node: TestNode) throws -> JobRecord {
        eventually("\(id) becomes \(state)") { (try? node.job(id).get().record.state) == state }
        return try node.job(id).get().record
    }

    private func check() throws {
        var connection = try Connection(url: database.url)
        #expect(try RowCheck.brokenRules(&connection) == [])
    }

    private func count(_ table: String) throws -> Int64 {
        var connection = try Connection(url: database.url)
        return try connection.execute(Statement("count", "SELECT count(*) FROM \(table)")).int64(0, 0)
    }

    @Test("a job waits for a group and a job, names what is left, and begins when the group is finished")
    func waiting() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let (member, single) = (job(in: "night"), newJob())
        _ = try node.submit([member, single]).get()
        let attempts = try node.attempts(2)
        let last = job(on: [.group("night"), .job(single.id)])
        _ = try wait {
            node.store.dependencies.prepareDependencies([single.id], tenant: "acme", reply: $0)
        }.get()
        _ = try node.submit([last], key: key("last")).get()
        let waiting = try node.job(last.id).get().record
        #expect(waiting.waitingFor == .dependency)
        #expect(waiting.pendingGroups == ["night"] && waiting.pendingDependencies == [single.id])
        let listed = try wait {
            node.store.jobs.jobs(JobQuery(tenant: "acme", states: [.waiting]), reply: $0)
        }.get().records
        #expect(listed.map(\.pendingGroups) == [["night"]])
        try check()
        for attempt in attempts { node.end(attempt, success) }
        eventually("only the group is left") {
            (try? node.job(last.id).get().record.pendingDependencies.isEmpty) == true
        }
        #expect(try node.job(last.id).get().record.pendingGroups == ["night"], "the group is open")
        _ = try node.close("night").get()
        #expect(try node.attempt().job == last.id)
        #expect(try count("job_dependencies") == 0)
        try check()
    }

    @Test("open failures and cancelled jobs fail the dependents that do not ignore it")
    func failing() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let (bad, cancelled) = (job(in: "bad"), job(in: "cancelled", isSuspended: true))
        _ = try node.submit([bad, cancelled]).get()
        let attempt = try node.attempt()
        let (failing, ignoring) = (job(on: [.group("bad")]), job(on: [.group("bad")], .ignore))
        let third = job(on: [.group("cancelled")])
        _ = try node.submit([failing, ignoring, third]).get()
        for name in ["bad", "cancelled"] { _ = try node.close(name).get() }
        _ = try wait { node.store.jobCommands.cancel(cancelled.id, tenant: "acme", reply: $0) }.get()
        node.end(attempt, failure(isRetryable: false))
        let error = try #require(try becomes(.failed, failing.id, node).error)
        #expect(error.code.choice == .dependencyFailed)
        #expect(error.message.contains("The group bad") && error.message.contains("failed jobs"))
        #expect(try node.attempt().job == ignoring.id)
        let reason = try #require(try becomes(.failed, third.id, node).error)
        #expect(reason.message.contains("has cancelled jobs"))
    }

    @Test("a finished group is a met dependency at once, or a failed one; a deleted one changes nothing")
    func finished() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let bad = job(in: "bad")
        _ = try node.submit([bad], closing: "bad").get()
        node.end(try node.attempt(), failure(isRetryable: false))
        _ = try node.submit([newJob()], closing: "empty").get()
        node.end(try node.attempt(), success)
        try eventually("both are finished") {
            try ["bad", "empty"].allSatisfy { try node.group($0).state == .finished }
        }
        let (good, failing) = (job(on: [.group("empty")]), job(on: [.group("bad")]))
        _ = try node.submit([good, failing]).get()
        let deletion = node.delete("empty")
        #expect(try node.attempt().job == good.id)
        #expect(throws: Never.self) { try deletion.get() }
        #expect(try becomes(.failed, failing.id, node).error?.code.choice == .dependencyFailed)
        #expect(node.submit([job(on: [.group("empty")])]).refusal == .groupMissing)
        try check()
    }

    @Test("a retry that reopens the group makes later dependents wait for the next round")
    func rounds() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let first = job(in: "night")
        _ = try node.submit([first], closing: "night").get()
        node.end(try node.attempt(), failure(isRetryable: false))
        try eventually("the group is finished") { try node.group("night").state == .finished }
        _ = try node.submit([job(in: "night", retrying: first.id)]).get()
        let later = job(on: [.group("night")])
        _ = try node.submit([later]).get()
        #expect(try node.job(later.id).get().record.pendingGroups == ["night"])
        node.end(try node.attempt(), success)
        #expect(try node.attempt().job == later.id, "the retry has ended the open failure")
        try check()
    }

    @Test("jobs that could wait for each other are refused, those of one batch in their order")
    func cycles() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let base = newJob()
        _ = try node.submit([base]).get()
        // A batch may name the group that its jobs create, and its jobs may depend on each other.
        let batch = {
            let early = job(in: "night", on: [.job(base.id)])
            return [early, job(in: "night", on: [.job(early.id)]), job(on: [.group("night")])]
        }
        let first = batch()
        let final = first[2]
        _ = try wait {
            node.store.dependencies.prepareDependencies([base.id], tenant: "acme", reply: $0)
        }.get()
        _ = try node.submit(first, key: key("batch")).get()
        #expect(try node.submit(batch(), key: key("batch")).get().isReplay)
        #expect(node.submit([job(in: "night", on: [.job(base.id)])]).refusal == .groupAwaited)
        #expect(node.submit([job(on: [.group("day")]), job(in: "day")]).refusal == nil)
        let outer = job(on: [.group("other")])
        let cycle = [job(in: "other"), outer, job(in: "other", on: [.job(outer.id)])]
        #expect(node.submit(cycle).refusal == .groupAwaited)
        #expect(node.submit([job(on: [.group("none")])]).refusal == .groupMissing)
        #expect(
            try wait { node.store.groups.awaitedGroups(["night", "none"], tenant: "acme", reply: $0) }.get()
                == ["night": true])
        _ = try wait { node.store.jobCommands.cancel(final.id, tenant: "acme", reply: $0) }.get()
        #expect(node.submit([job(in: "night", on: [.job(base.id)])]).refusal == nil, "no job waits for it")
        try check()
    }

    @Test("of two jobs that would wait for each other, submitted at once on two nodes, one is refused")
    func concurrentCycles() throws {
        let nodes = [try TestNode(database.url), try TestNode(database.url)]
        defer { nodes.forEach { $0.store.stop() } }
        for round in 0..<20 {
            let names = ["a-\(round)", "b-\(round)"]
            for name in names { _ = try nodes[0].submit([job(in: name)]).get() }
            let replies = Mailbox<Result<Submission.Accepted, StoreError>>()
            for (node, (own, other)) in zip(nodes, [(names[0], names[1]), (names[1], names[0])]) {
                node.store.submissions.submit(
                    Submission(
                        jobs: [job(in: own, on: [.group(other)])], idempotency: nil,
                        reply: { replies.send($0) }))
            }
            var found: [Result<Submission.Accepted, StoreError>] = []
            while found.count < 2 { found += replies.wait(milliseconds: -1) }
            #expect(found.count { (try? $0.get()) != nil } <= 1, "round \(round)")
        }
        try check()
    }

    @Test("dependents that are submitted while their groups end all begin, on two nodes")
    func concurrency() throws {
        let nodes = [try TestNode(database.url, slots: 50), try TestNode(database.url, slots: 50)]
        defer { nodes.forEach { $0.store.stop() } }
        for node in nodes {
            node.runner.react { attempt in node.store.dispatcher.record(result(attempt, success)) }
        }
        var dependents: [JobID] = []
        let names = (0..<10).map { "group-\($0)" }
        let replies = Mailbox<Result<Submission.Accepted, StoreError>>()
        for (index, name) in names.enumerated() {
            _ = try nodes[index % 2].submit([job(in: name)]).get()
            nodes[index % 2].store.submissions.submit(
                Submission(
                    jobs: [newJob()], idempotency: nil, closedGroup: name, reply: { replies.send($0) }))
            for node in nodes {
                let next = job(on: [.group(name)])
                dependents.append(next.id)
                node.store.submissions.submit(
                    Submission(jobs: [next], idempotency: nil, reply: { replies.send($0) }))
            }
        }
        var answers: [Result<Submission.Accepted, StoreError>] = []
        eventually("all are accepted") {
            answers += replies.wait(milliseconds: 100)
            return answers.count == 30
        }
        for answer in answers { _ = try answer.get() }
        for id in dependents { _ = try becomes(.succeeded, id, nodes[0]) }
        #expect(try count("job_dependencies") == 0)
        try check()
    }
}

extension Result where Failure == StoreError {
    fileprivate var refusal: StoreError? { if case .failure(let error) = self { error } else { nil } }
}
