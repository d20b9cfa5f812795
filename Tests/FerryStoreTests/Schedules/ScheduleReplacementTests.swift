import FerryCore
import FerryStore
import Postgres
import Sys
import TestSupport
import TestThreads
import Testing

@Suite("Replaced schedules", .onOwnThread)
struct ScheduleReplacementTests {
    let database: TestDatabase
    let node: TestNode

    init() throws {
        database = try TestDatabase(template: template)
        node = try TestNode(database.url)
    }

    private var now: Timestamp { Timestamp(microseconds: Sys.wallMicroseconds()) }

    private func create(jitter: Double = 0, overlap: String = "allow") throws -> ScheduleRecord {
        let json =
            #"{"time_zone":"UTC","missed":"run_once","overlap":"\#(overlap)","enabled":true,"#
            + #""jitter":\#(jitter),"interval":1000.0}"#
        let schedule = NewSchedule(
            id: TestNode.identifiers.make(), tenant: "acme",
            spec: try ScheduleSpec(storedJSON: Array(json.utf8)),
            jobs: ScheduleJobs(newJob().request))
        return try wait { reply in
            node.store.scheduleCommands.createSchedule(schedule, nil) { reply($0.map(\.record)) }
        }.get()
    }

    /// Replaces the job and applies `change`.
    private func replace(
        _ id: ScheduleID, _ change: @escaping @Sendable (inout ScheduleSpec) -> Void = { _ in }
    ) throws -> ScheduleRecord {
        let jobs = ScheduleJobs(newJob(host: "new.example").request)
        let replaced: ScheduleRecord = try wait { reply in
            node.store.scheduleCommands.changeSchedule(
                id, tenant: "acme", revision: nil, jobs: jobs,
                { spec in
                    var spec = spec
                    change(&spec)
                    return spec
                }, reply: reply)
        }.get()
        return replaced
    }

    /// Makes this occurrence the next one, checked at `runAt`.
    private func move(to occurrence: Timestamp, runAt: Timestamp, isHeld: Bool = false) throws {
        var connection = try Connection(url: database.url)
        try connection.execute(
            script: """
                UPDATE schedules SET next_scheduled_at = '\(occurrence)', next_run_at = '\(runAt)',
                    is_held = \(isHeld)
                """)
    }

    private func heldCount() throws -> Int64 {
        var connection = try Connection(url: database.url)
        let held = Statement("held", "SELECT count(*) FROM schedules WHERE is_held")
        return try connection.execute(held).int64(0, 0)
    }

    @Test("a jittered occurrence stays due through changes that keep its times")
    func jitter() throws {
        defer { node.store.stop() }
        let made = try create(jitter: 3_600)
        let delay = { (occurrence: Timestamp) in made.spec.delay(made.id, occurrence) }
        let start = now
        let due = try #require((1...1_000).map { start + -Double($0) }.first { delay($0) > 3_000 })
        let runAt = due + delay(due)
        try move(to: due, runAt: runAt)
        for _ in 0..<2 {
            let same = try replace(made.id)
            #expect(same.nextScheduledAt == due && same.nextRunAt == runAt)
        }
        let milder = try replace(made.id) {
            $0.description = "other"
            $0.missed = .skip
            $0.overlap = .queue
            // An interval in seconds does not depend on the time zone.
            $0.timeZone = "Europe/Berlin"
        }
        #expect(milder.nextScheduledAt == due && milder.nextRunAt == runAt && milder.revision == 4)
        let next = made.createdAt + 1_000
        #expect(try replace(made.id) { $0.jitter = 1_800 }.nextScheduledAt == next)
        try move(to: due, runAt: runAt)
        #expect(try replace(made.id) { $0.endAt = start + 86_400 }.nextScheduledAt == next)
        try move(to: due, runAt: runAt)
        let paused = try replace(made.id) { $0.isEnabled = false }
        #expect(paused.nextScheduledAt == nil && paused.nextRunAt == nil)
        #expect(try replace(made.id) { $0.isEnabled = true }.nextScheduledAt == next)
    }

    @Test("a held occurrence stays held, unless the change gives it other times")
    func held() throws {
        defer { node.store.stop() }
        let made = try create(overlap: "queue")
        let runAt = made.createdAt + 600
        try move(to: made.createdAt, runAt: runAt, isHeld: true)
        let same = try replace(made.id) { $0.overlap = .cancelPrevious }
        #expect(same.nextScheduledAt == made.createdAt && same.nextRunAt == runAt)
        #expect(try heldCount() == 1)
        let other = try replace(made.id) { $0.pattern = .interval(500) }
        #expect(other.nextScheduledAt == made.createdAt + 500 && other.nextRunAt == other.nextScheduledAt)
        #expect(try heldCount() == 0)
    }

    @Test("a postponed occurrence runs at once with the job that repairs the schedule")
    func repaired() throws {
        defer { node.store.stop() }
        let made = try create()
        let due = now + -10
        try move(to: due, runAt: due + 3_600)
        _ = try replace(made.id)
        node.store.schedules.wake()
        let attempt = try node.attempt()
        #expect(attempt.spec.occurrence?.scheduledAt == due)
        #expect(attempt.spec.request.url == "https://new.example/a")
    }

    @Test("a schedule without a next occurrence gets one when it is replaced")
    func ended() throws {
        defer { node.store.stop() }
        let made = try create()
        var connection = try Connection(url: database.url)
        try connection.execute(script: "UPDATE schedules SET next_scheduled_at = NULL, next_run_at = NULL")
        #expect(try replace(made.id).nextScheduledAt == made.createdAt + 1_000)
    }
}
