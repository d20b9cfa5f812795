import FerryCore
import Postgres
import Sys
import TestSupport
import TestThreads
import Testing

@testable import FerryStore

@Suite("Due questions", .onOwnThread)
struct QuestionTransactionTests {
    let database: TestDatabase

    init() throws { database = try TestDatabase(template: template) }

    private func confirmed(
        timeout: Double, on dependencies: [JobID] = [], beginAt: Timestamp? = nil
    ) -> NewJob {
        let plain = newJob(beginAt: beginAt)
        var spec = plain.spec
        spec.schedule.dependencies = dependencies.map(JobDependency.job)
        spec.schedule.confirmsBeforeBegin = true
        spec.questions.timeout = timeout
        return plain.with(spec)
    }

    private func isAsked(_ job: NewJob, _ node: TestNode) throws -> Bool {
        try node.job(job.id).get().record.questionJSON != nil
    }

    @Test("a locked job with an expired question delays no other question and no begin")
    func locked() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let late = confirmed(timeout: 600)
        _ = try node.submit([late]).get()
        try eventually("it is asked") { try isAsked(late, node) }
        var connection = try Connection(url: database.url)
        // In one message, so that the question cannot expire before the row is locked.
        try connection.execute(
            script: """
                BEGIN; UPDATE jobs SET next_attempt_at = now() + interval '2 s'; COMMIT;
                BEGIN; SELECT FROM jobs FOR UPDATE
                """)
        let next = confirmed(timeout: 600, beginAt: Timestamp(microseconds: Sys.wallMicroseconds()) + 3)
        let begin = newJob(beginAt: Timestamp(microseconds: Sys.wallMicroseconds()) + 4)
        _ = try node.submit([next, begin]).get()
        // The first question has expired long before.
        #expect(node.runner.begun.wait(milliseconds: 60_000).map(\.job) == [begin.id])
        try eventually("the next is asked") { try isAsked(next, node) }
        #expect(try isAsked(late, node))
        try connection.execute(script: "COMMIT")
        #expect(try node.attempt().job == late.id)
    }

    @Test(
        "a dependent suspended until its dependency has ended needs its confirmation when resumed",
        arguments: [nil, "a"])
    func suspendedDependent(_ name: String?) throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let first = newJob()
        _ = try node.submit(first)
        let attempt = try node.attempt()
        let store = node.store
        let missing = try wait {
            store.dependencies.prepareDependencies([first.id], tenant: "acme", reply: $0)
        }.get()
        #expect(missing.isEmpty)
        let dependent = confirmed(timeout: 600, on: [first.id])
        _ = try node.submit([dependent], key: name.map { key($0) }).get()
        _ = try wait { store.jobCommands.suspend(dependent.id, tenant: "acme", reply: $0) }.get()
        node.end(attempt, success)
        var connection = try Connection(url: database.url)
        let left = Statement("left", "SELECT count(*) FROM job_dependencies")
        try eventually("the dependency is removed") { try connection.execute(left).int64(0, 0) == 0 }
        #expect(
            try wait { store.jobCommands.resume(dependent.id, tenant: "acme", reply: $0) }.get().state
                == .waiting)
        try eventually("it is asked about") { try isAsked(dependent, node) }
        #expect(node.runner.begun.count == 0)
    }

    @Test("on two nodes each of 150 jobs gets one question and begins once after its timeout")
    func many() throws {
        let nodes = try (0..<2).map { _ in try TestNode(database.url, slots: 100) }
        defer { nodes.forEach { $0.store.stop() } }
        let jobs = (0..<150).map { _ in confirmed(timeout: 0.5) }
        _ = try nodes[0].submit(jobs).get()
        var begun: [JobID] = []
        eventually("all begin") {
            begun += nodes.flatMap { $0.runner.begun.take() }.map(\.job)
            return begun.count >= 150
        }
        #expect(begun.count == 150 && Set(begun) == Set(jobs.map(\.id)))
        try eventually("each job has one job.will_begin event") {
            let log = try EventLog(database.url)
            return log.events.count { $0.record.type == .jobWillBegin } == 150
        }
    }

    @Test("a job with an unreadable question fails, and the jobs behind it begin")
    func unreadable() throws {
        let node = try TestNode(database.url, slots: 20)
        defer { node.store.stop() }
        let jobs = (0..<15).map { _ in confirmed(timeout: 600) }
        _ = try node.submit(jobs).get()
        try eventually("all are asked") { try jobs.allSatisfy { try isAsked($0, node) } }
        var connection = try Connection(url: database.url)
        try connection.execute(
            script: """
                UPDATE jobs SET next_attempt_at = now(),
                    question = CASE WHEN id = (SELECT min(id::text)::uuid FROM jobs) THEN '{}'
                        ELSE question END;
                NOTIFY ferry, 'work'
                """)
        let damaged = try #require(jobs.map(\.id).min())
        node.waitUntilFinished(damaged)
        #expect(try node.job(damaged).get().record.state == .failed)
        let begun = try node.attempts(14)
        #expect(Set(begun.map(\.job)) == Set(jobs.map(\.id)).subtracting([damaged]))
    }
}
