import FerryCore
import Postgres
import TestSupport
import TestThreads
import Testing

@testable import FerryStore

@Suite("The columns is_repeatable and awaits_host", .onOwnThread)
final class ClaimFlagTests {
    let database: TestDatabase
    /// Leases nothing.
    let node: TestNode

    init() throws {
        database = try TestDatabase(template: template)
        node = try TestNode(database.url, isWorker: false)
    }

    deinit { node.store.stop() }

    private func changed(_ job: NewJob = newJob(), _ change: (inout JobSpec) -> Void) -> NewJob {
        var spec = job.spec
        change(&spec)
        return job.with(spec)
    }

    private func post() -> NewJob {
        changed(newJob(metadata: [.init("method", "GET")])) { $0.request.method = "POST" }
    }

    /// Returns both columns of all jobs, in the order of their submission.
    private func flags() throws -> [[Bool]] {
        var connection = try Connection(url: database.url)
        let sql = "SELECT is_repeatable, awaits_host FROM jobs ORDER BY id"
        let rows = try connection.execute(Statement("flags", sql))
        return (0..<rows.rowCount).map { [rows.bool($0, 0), rows.bool($0, 1)] }
    }

    /// Claims as a node does that leases more jobs than it has slots. Returns the leased jobs.
    private func claimToHold() throws -> Set<JobID> {
        var options = ConnectionOptions()
        options.settings = [.init("ferry.shard", "test")]
        var connection = try Connection(url: database.url, options: options)
        try connection.execute(script: "PREPARE claim AS \(Statements.claimJobs.sql)")
        let queue = try connection.execute(Statement("queue", "SELECT DISTINCT queue FROM jobs")).int64(0, 0)
        let rows = try connection.execute(
            Statement(
                "execute_claim",
                """
                EXECUTE claim('{\(queue)}', '{100}', '\(node.id.uuidText)', now(), false, false, true,
                    '{-infinity}', 15, '{false}', '{NULL}', 100)
                """))
        let leased = (0..<rows.rowCount).filter { !rows.isNull($0, 7) }
        return Set(leased.map { rows.identifier($0, 0) as JobID })
    }

    @Test(#"a POST whose metadata contains {"method":"GET"} is not leased without a slot, as a GET is"#)
    func metadata() throws {
        let (get, post) = (newJob(), post())
        let allowed = changed(self.post()) { $0.retry.repeatsNonIdempotent = true }
        #expect(String(decoding: post.storedSpec.json, as: UTF8.self).contains(#"{"method":"GET"}"#))
        _ = try node.submit([get, post, allowed]).get()
        #expect(try claimToHold() == [get.id, allowed.id])
    }

    @Test("every way to submit a job fills both columns", arguments: [nil, "a"])
    func submissions(_ name: String?) throws {
        let jobs = [
            newJob(), post(), changed(post()) { $0.retry.repeatsNonIdempotent = true },
            changed { $0.schedule.waitsForConnectivity = false },
            changed { $0.mirrors = ["https://b.example/a"] },
        ]
        _ = try node.submit(jobs, key: name.map { key($0) }).get()
        #expect(
            try flags() == [[true, true], [false, true], [true, true], [true, false], [true, false]])
    }

    @Test("a job of a schedule has both columns")
    func schedule() throws {
        let json = #"{"time_zone":"UTC","missed":"skip","overlap":"allow","enabled":true,"interval":0.01}"#
        let schedule = NewSchedule(
            id: TestNode.identifiers.make(), tenant: "acme",
            spec: try ScheduleSpec(storedJSON: Array(json.utf8)),
            jobs: ScheduleJobs(post().request))
        _ = try wait { reply in
            node.store.scheduleCommands.createSchedule(schedule, nil) { reply($0.map(\.record)) }
        }.get()
        node.store.schedules.wake()
        try eventually("it has run") { try flags().first == [false, true] }
    }

    @Test("an edit and an answer that replace the request replace both columns")
    func changes() throws {
        let plain = newJob()
        let confirmed = changed {
            $0.schedule.confirmsBeforeBegin = true
            $0.questions.timeout = 600
        }
        _ = try node.submit([plain, confirmed]).get()
        #expect(try flags() == [[true, true], [true, true]])
        let edited = wait { reply in
            node.store.jobCommands.edit(
                plain.id, tenant: "acme",
                { draft throws(InvalidFields) in
                    var draft = draft
                    draft.spec.request.method = "POST"
                    draft.spec.schedule.waitsForConnectivity = false
                    return draft
                }, reply: reply)
        }
        _ = try edited.get()
        #expect(try flags() == [[false, false], [true, true]])
        let worker = try TestNode(database.url)
        defer { worker.store.stop() }
        try eventually("the question is asked") {
            try node.job(confirmed.id).get().record.questionJSON != nil
        }
        let answered = wait { reply in
            node.store.questions.answer(
                confirmed.id, tenant: "acme", kind: .begin,
                { draft, _, _ throws(InvalidFields) in
                    var draft = draft
                    draft.spec.request.method = "POST"
                    return .goOn(draft)
                }, reply: reply)
        }
        _ = try answered.get()
        #expect(try flags() == [[false, false], [false, true]])
    }
}
