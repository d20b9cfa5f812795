import FerryCore
import Postgres
import Sys
import TestSupport
import TestThreads
import Testing

@testable import FerryStore

@Suite("Groups of jobs", .onOwnThread)
struct GroupTests {
    let database: TestDatabase

    init() throws { database = try TestDatabase(template: template) }

    private func job(
        _ name: String, session: String = "default", retrying source: JobID? = nil,
        change: (inout JobSpec) -> Void = { _ in }
    ) -> NewJob {
        var spec = newJob(session: session, attemptCountMax: 1).spec
        spec.group = name
        change(&spec)
        return NewJob(
            id: TestNode.identifiers.make(), tenant: "acme", JobRequest(spec),
            specJSON: spec.encodeStored(), sealedSecrets: nil, traceparent: nil, retryOf: source)
    }

    private func brokenRules() throws -> [BrokenRule] {
        var connection = try Connection(url: database.url)
        return try RowCheck.brokenRules(&connection)
    }

    private func finishedGroups() throws -> [Event] {
        try EventLog(database.url).events.filter { $0.record.type == .groupFinished }
    }

    @Test("the counts of a group follow its jobs through all states")
    func counts() throws {
        let node = try TestNode(database.url, slots: 3)
        defer { node.store.stop() }
        let running = (0..<3).map { _ in job("night") }
        _ = try node.submit(running + [job("other")]).get()
        let waiting = job("night") {
            $0.schedule.earliestBeginAt = Timestamp(microseconds: Sys.wallMicroseconds()) + 3_600
        }
        let suspended = job("night") { $0.startsSuspended = true }
        _ = try node.submit([waiting, suspended], key: key("one")).get()
        _ = try node.submit([job("night"), newJob()]).get()
        var expected = JobGroupCounts()
        (expected.running, expected.waiting, expected.suspended, expected.queued) = (3, 1, 1, 1)
        // A look for jobs may hold the slots while jobs are submitted; they begin after it.
        try eventually("three jobs run") { try node.group("night").counts == expected }
        let other = try node.group("other")
        #expect(other.counts.queued == 1 && other.counts.running == 0 && other.state == .open)
        #expect(try brokenRules() == [])
        _ = try wait { node.store.jobCommands.resume(suspended.id, tenant: "acme", reply: $0) }.get()
        _ = try wait { node.store.jobCommands.cancel(waiting.id, tenant: "acme", reply: $0) }.get()
        for attempt in try node.attempts(3) {
            node.end(attempt, attempt.job == running[0].id ? failure(isRetryable: false) : success)
        }
        (expected.running, expected.waiting, expected.suspended, expected.queued) = (2, 0, 0, 0)
        (expected.succeeded, expected.failed, expected.cancelled) = (2, 1, 1)
        try eventually("the queued jobs of the group run") { try node.group("night").counts == expected }
        #expect(try node.group("night").openFailureCount == 1)
        #expect(try brokenRules() == [])
    }

    @Test("a group has the bytes of its succeeded jobs, and the rate of those that ended in the last minute")
    func progress() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        _ = try node.submit([job("night"), job("night"), job("night"), newJob()]).get()
        let attempts = try node.attempts(4)
        for (index, attempt) in attempts.enumerated() {
            let isFailed = attempt.spec.group != nil && index == attempts.lastIndex { $0.spec.group != nil }
            node.end(attempt, isFailed ? failure(isRetryable: false) : success)
        }
        try eventually("all jobs of the group have ended") { try node.group("night").counts.ended == 3 }
        let group = try node.group("night")
        let size = try #require(
            try node.job(attempts.first { $0.spec.group != nil }?.job ?? attempts[0].job).get().record.result
        ).size
        #expect(group.bytesReceived == 2 * size && group.bytesSent == 0)
        #expect(group.jobsPerSecond > 0 && size > 0 && group.bytesPerSecond > 0)
        let shown = try JSON.parse(group.shown())["progress"]
        #expect(shown?["bytes_expected_to_receive"]?.integer == 2 * size)
        #expect(shown?["fraction_completed"]?.double == 1 && shown?["seconds_remaining"]?.double == 0)
        var connection = try Connection(url: database.url)
        try connection.execute(script: "UPDATE job_group_counts SET minute = minute - 2")
        let later = try node.group("night")
        #expect(later.jobsPerSecond == 0 && later.bytesPerSecond == 0 && later.bytesReceived == 2 * size)
    }

    @Test("a closed group takes no jobs, finishes once, and tells its webhook after its jobs' events")
    func closing() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let draft = try GroupDraft(
            storedJSON: Array(#"{"name": "night", "webhook": {"url": "https://hook.example/"}}"#.utf8))
        _ = try node.create(draft).get()
        #expect(node.create(draft).failure == .groupExists)
        let jobs = [job("night", session: "a"), job("night", session: "b")]
        _ = try node.submit(jobs, key: key("first")).get()
        let attempts = try node.attempts(2)
        node.end(attempts[0], success)
        let closed = try node.close("night").get()
        #expect(closed.state == .closed && closed.counts.running == 1)
        #expect(try node.close("night").get().closedAt == closed.closedAt)
        #expect(node.submit([job("night")]).failure == .groupClosed)
        #expect(node.submit([job("night")], key: key("second")).failure == .groupClosed)
        #expect(try node.submit(jobs, key: key("first")).get().isReplay)
        let accepted = try node.submit([newJob()]).get()
        #expect(!accepted.isReplay, "others are not concerned")
        #expect(try finishedGroups().isEmpty)
        node.end(attempts[1], success)
        try eventually("the group is finished") { try node.group("night").state == .finished }
        let found = try EventLog(database.url)
        let event = try #require(found.events.first { $0.record.type == .groupFinished })
        #expect(found.isGapFree && event.session.isEmpty && event.sequence == 1)
        for id in jobs.map(\.id) {
            #expect(found.events.filter { $0.record.job == id }.allSatisfy { $0.id < event.id })
        }
        let shown = try JSON.parse(event.record.detail)
        #expect(shown["counts"]?["succeeded"]?.integer == 2 && shown["state"]?.string == "finished")
        try node.waitForDeliveries(1)
        #expect(try node.close("night").get().state == .finished)
        #expect(try finishedGroups().count == 1)
    }

    @Test("a summary counts jobs by group; jobs without one are null")
    func summary() throws {
        let node = try TestNode(database.url, isWorker: false)
        defer { node.store.stop() }
        _ = try node.submit([job("night"), job("night"), job("day"), newJob()]).get()
        let summary = try wait {
            node.store.jobs.summary(of: JobQuery(tenant: "acme"), by: [.group], reply: $0)
        }.get()
        let counts = Dictionary(uniqueKeysWithValues: summary.rows.map { ($0.values, $0.count) })
        #expect(counts == [["night"]: 2, ["day"]: 1, [nil]: 1])
    }

    @Test("a batch closes its group, also if its key is repeated, and an empty group finishes at once")
    func closingWithJobs() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let jobs = [job("night"), job("night")]
        #expect(try !node.submit(jobs, closing: "night", key: key("one")).get().isReplay)
        #expect(try node.submit(jobs, closing: "night", key: key("one")).get().isReplay)
        #expect(node.submit([job("night")], closing: "night").failure == .groupClosed)
        try eventually("both jobs run") { try node.group("night").counts.running == 2 }
        #expect(try !node.submit([newJob()], closing: "empty").get().isReplay)
        try eventually("the empty group is finished") { try node.group("empty").state == .finished }
        #expect(try node.group("night").state == .closed)
        #expect(node.delete("night").failure == .groupUnfinished)
        _ = try node.delete("empty").get()
        #expect(node.delete("empty").failure == .notFound)
        #expect(try brokenRules() == [])
    }

    @Test("a retry after the end begins another round, which finishes again")
    func rounds() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let first = job("night")
        _ = try node.submit([first], closing: "night").get()
        node.end(try node.attempt(), failure(isRetryable: false))
        try eventually("the group is finished") { try node.group("night").state == .finished }
        #expect(try node.job(first.id).get().record.group == "night")
        #expect(try node.group("night").openFailureCount == 1)
        let retry = job("night", retrying: first.id)
        _ = try node.submit([retry]).get()
        let second = try node.group("night")
        #expect(second.state == .closed && second.round == 2)
        #expect(second.counts.running + second.counts.queued == 1)
        #expect(second.counts.failed == 1 && second.openFailureCount == 0)
        _ = try node.submit([job("night", retrying: first.id)]).get()
        #expect(try node.group("night").openFailureCount == 0, "the failure has ended with its first retry")
        for attempt in try node.attempts(2) { node.end(attempt, success) }
        try eventually("the group is finished again") { try node.group("night").state == .finished }
        #expect(try finishedGroups().map(\.sequence) == [1, 2])
        _ = try node.delete("night").get()
        #expect(try node.job(first.id).get().record.group == nil, "the group was deleted")
    }

    @Test("jobs of a group are listed, finished or not, and those of other groups and tenants are not")
    func list() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let jobs = (0..<3).map { _ in job("night") }
        _ = try node.submit(jobs + [job("other"), newJob()]).get()
        node.end(try #require(try node.attempts(4).first { $0.job == jobs[0].id }), success)
        func listed(_ change: (inout JobQuery) -> Void = { _ in }, tenant: String = "acme") throws -> [JobID]
        {
            var query = JobQuery(tenant: tenant)
            query.group = "night"
            change(&query)
            return try wait { node.store.jobs.jobs(query, reply: $0) }.get().records.map(\.id)
        }
        #expect(try listed() == jobs.map(\.id).sorted(by: >))
        #expect(try listed { $0.states = [.succeeded] } == [jobs[0].id])
        #expect(try listed({ $0.before = jobs[1].id }) == [jobs[0].id])
        #expect(try listed(tenant: "other").isEmpty)
    }

    @Test("counts stay exact while two nodes submit, run and close, and after they are folded")
    func concurrency() throws {
        let nodes = [try TestNode(database.url, slots: 50), try TestNode(database.url, slots: 50)]
        defer { nodes.forEach { $0.store.stop() } }
        for node in nodes {
            node.runner.react { attempt in
                node.store.dispatcher.record(
                    result(attempt, attempt.job.low % 3 == 0 ? failure(isRetryable: false) : success))
            }
        }
        let (groupCount, batchCount) = (3, 20)
        let replies = Mailbox<Result<Submission.Accepted, StoreError>>()
        for batch in 0..<batchCount {
            for node in nodes {
                let jobs = (0..<10).map {
                    job("group \(($0 + batch) % groupCount)".replacing(" ", with: "-"))
                }
                node.store.submissions.submit(
                    Submission(jobs: jobs, idempotency: nil, reply: { replies.send($0) }))
            }
        }
        var answers: [Result<Submission.Accepted, StoreError>] = []
        eventually("all are accepted") {
            answers += replies.wait(milliseconds: 100)
            return answers.count == 2 * batchCount
        }
        for answer in answers { _ = try answer.get() }
        let names = (0..<groupCount).map { "group-\($0)" }
        for (index, name) in names.enumerated() { _ = try nodes[index % 2].close(name).get() }
        try eventually("all groups are finished") {
            try names.allSatisfy { try nodes[0].group($0).state == .finished }
        }
        let groups = try names.map { try nodes[0].group($0) }
        #expect(groups.reduce(0) { $0 + $1.counts.succeeded + $1.counts.failed } == Int64(20 * batchCount))
        #expect(groups.allSatisfy { $0.counts.failed == $0.openFailureCount })
        #expect(try finishedGroups().count == groupCount)
        var connection = try Connection(url: database.url)
        try connection.execute(script: "UPDATE job_group_counts SET shard = 'dead/' || shard")
        var silence = Parameters()
        silence.append(float64: 3_600)
        _ = try connection.execute(Statements.foldCounts, silence)
        let shards = try connection.execute(
            Statement("shards", "SELECT DISTINCT shard FROM job_group_counts"))
        #expect(shards.rowCount == 1 && shards.text(0, 0) == "folded")
        let folded = try names.map { try nodes[0].group($0) }
        #expect(folded.map(\.counts) == groups.map(\.counts))
        #expect(folded.map(\.openFailureCount) == groups.map(\.openFailureCount))
        #expect(folded.map(\.bytesReceived) == groups.map(\.counts.succeeded), "each has one byte")
        #expect(try brokenRules() == [])
    }

    @Test("finished groups are removed after their time, and others stay")
    func retention() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        for name in ["old", "young", "open"] { _ = try node.create(GroupDraft(name: name)).get() }
        for name in ["old", "young"] { _ = try node.close(name).get() }
        try eventually("both are finished") {
            try ["old", "young"].allSatisfy { try node.group($0).state == .finished }
        }
        var connection = try Connection(url: database.url)
        try connection.execute(
            script: """
                UPDATE job_groups SET closed_at = closed_at - interval '1 day',
                    finished_at = finished_at - interval '1 day' WHERE name = 'old'
                """)
        var parameters = Parameters()
        parameters.append(float64: 3_600)
        parameters.append(int32: 10)
        #expect(try connection.execute(Statements.removeOldJobGroups, parameters).int64(0, 0) == 1)
        let left = try wait { node.store.groups.groups(tenant: "acme", before: nil, limit: 10, reply: $0) }
            .get()
        #expect(Set(left.map(\.draft.name)) == ["young", "open"])
    }
}

extension TestNode {
    func group(_ name: String) throws -> JobGroup {
        try wait { store.groups.group(name, tenant: "acme", reply: $0) }.get()
    }

    fileprivate func create(_ draft: GroupDraft) -> Result<Created<JobGroup>, StoreError> {
        let group = JobGroup(
            id: Self.identifiers.make(), tenant: "acme", draft,
            createdAt: Timestamp(microseconds: Sys.wallMicroseconds()))
        return wait { store.groups.createGroup(group, nil, reply: $0) }
    }

    func close(_ name: String) -> Result<JobGroup, StoreError> {
        wait { store.groups.closeGroup(name, tenant: "acme", reply: $0) }
    }

    func delete(_ name: String) -> Result<Void, StoreError> {
        wait { store.groups.deleteGroup(name, tenant: "acme", if: { _ in true }, reply: $0) }
    }

    func submit(
        _ jobs: [NewJob], closing group: String, key: Submission.Idempotency? = nil
    ) -> Result<Submission.Accepted, StoreError> {
        wait { reply in
            store.submissions.submit(
                Submission(jobs: jobs, idempotency: key, closedGroup: group, reply: reply))
        }
    }
}

extension Result {
    fileprivate var failure: Failure? { if case .failure(let error) = self { error } else { nil } }
}
