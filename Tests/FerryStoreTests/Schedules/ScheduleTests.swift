import FerryCore
import FerryStore
import Postgres
import Sys
import TestSupport
import TestThreads
import Testing

@Suite("Schedules", .serialized, .onOwnThread)
final class ScheduleTests {
    let database: TestDatabase
    let node: TestNode

    init() throws {
        database = try TestDatabase(template: template)
        node = try TestNode(database.url)
    }

    deinit { node.store.stop() }

    private func schedule(
        interval: Double, missed: String = "run_once", overlap: String = "allow", enabled: Bool = true
    ) throws -> NewSchedule {
        let json =
            #"{"time_zone":"UTC","missed":"\#(missed)","overlap":"\#(overlap)","enabled":\#(enabled),"#
            + #""interval":\#(interval)}"#
        return NewSchedule(
            id: TestNode.identifiers.make(), tenant: "acme",
            spec: try ScheduleSpec(storedJSON: Array(json.utf8)),
            jobs: ScheduleJobs(newJob().request))
    }

    private func create(_ schedule: NewSchedule, key: Submission.Idempotency? = nil) throws -> ScheduleRecord
    {
        let record: ScheduleRecord = try wait { reply in
            node.store.scheduleCommands.createSchedule(schedule, key) { reply($0.map(\.record)) }
        }.get()
        node.store.schedules.wake()
        return record
    }

    private func read(_ id: ScheduleID) throws -> ScheduleRecord {
        try wait { node.store.scheduleCommands.schedule(id, tenant: "acme", reply: $0) }.get()
    }

    /// Moves the schedule into the past by `seconds`.
    private func age(_ id: ScheduleID, seconds: Double) throws {
        var connection = try Connection(url: database.url)
        try connection.execute(
            script: """
                UPDATE schedules SET created_at = created_at - interval '\(seconds) s',
                    next_scheduled_at = next_scheduled_at - interval '\(seconds) s',
                    next_run_at = next_run_at - interval '\(seconds) s' WHERE id = '\(uuid(id))'
                """)
        node.store.schedules.wake()
    }

    private func uuid(_ id: ScheduleID) -> String {
        let digits = Array(hex(id.high) + hex(id.low))
        let parts = [0..<8, 8..<12, 12..<16, 16..<20, 20..<32].map { String(digits[$0]) }
        return parts.joined(separator: "-")
    }

    private func hex(_ word: UInt64) -> String {
        let digits = String(word, radix: 16)
        return String(repeating: "0", count: 16 - digits.count) + digits
    }

    private func jobs(of id: ScheduleID) throws -> [JobRecord] {
        var query = JobQuery(tenant: "acme", limit: 500)
        query.schedule = id
        return try wait { node.store.jobs.jobs(query, reply: $0) }.get().records
    }

    private func number(_ sql: String) throws -> Int64 {
        var connection = try Connection(url: database.url)
        return try connection.execute(Statement("number", sql)).int64(0, 0)
    }

    @Test("each occurrence becomes one job that names its schedule and time")
    func runs() throws {
        // With `run_all` late occurrences become jobs as well.
        let made = try create(schedule(interval: 0.2, missed: "run_all"))
        let attempts = try node.attempts(3)
        var occurrences: [Timestamp] = []
        for attempt in attempts {
            let occurrence = try #require(attempt.spec.occurrence)
            #expect(occurrence.schedule == made.id && attempt.tenant == "acme")
            #expect(attempt.traceparent?.utf8.count == 55)
            occurrences.append(occurrence.scheduledAt)
        }
        #expect(occurrences == (1...3).map { made.createdAt + Double($0) * 0.2 })
        let record = try read(made.id)
        #expect(record.counts.runs >= 3 && record.counts.missed == 0)
        #expect(record.lastJob != nil && record.lastRunAt.map { $0 >= occurrences[2] } == true)
        #expect(record.revision == 1, "runs are no changes")
        #expect(try jobs(of: made.id).count >= 3)
        #expect(try jobs(of: ScheduleID(high: 1, low: 1)).isEmpty)
    }

    @Test("the jobs of a schedule whose job is to be suspended are suspended")
    func suspended() throws {
        var spec = newJob().spec
        spec.startsSuspended = true
        let plain = try schedule(interval: 3_600)
        let made = try create(
            NewSchedule(
                id: plain.id, tenant: plain.tenant, spec: plain.spec,
                jobs: ScheduleJobs(newJob().with(spec).request)))
        try age(made.id, seconds: 3_600)
        try eventually("it has run") { try jobs(of: made.id).count == 1 }
        let job = try #require(try jobs(of: made.id).first)
        #expect(job.state == .suspended && job.attempt == 0)
        let resumed = try wait { node.store.jobCommands.resume(job.id, tenant: "acme", reply: $0) }.get()
        #expect([.queued, .running].contains(resumed.state))
        #expect(try node.attempt().job == job.id)
    }

    private func run(_ id: ScheduleID) -> Result<Created<JobRecord>, StoreError> {
        wait {
            node.store.scheduleCommands.runSchedule(id, tenant: "acme", nil, traceparent: "t", reply: $0)
        }.single
    }

    private func create(_ change: (inout JobSpec) -> Void) throws -> ScheduleRecord {
        var spec = newJob().spec
        change(&spec)
        let plain = try schedule(interval: 3_600)
        return try create(
            NewSchedule(
                id: plain.id, tenant: plain.tenant, spec: plain.spec,
                jobs: ScheduleJobs(newJob().with(spec).request)))
    }

    @Test("a run joins the group of its day; one whose group is closed is skipped with the reason, alone")
    func groups() throws {
        let made = try create { $0.group = "night-{scheduled_at:year}" }
        let closed = try create { $0.group = "closed" }
        let first = try run(made.id).get().record
        let year = try #require(first.group)
        #expect(year.hasPrefix("night-20") && year.utf8.count == 10)
        _ = try run(closed.id).get()
        _ = try node.close("closed").get()
        guard case .failure(.groupClosed) = run(closed.id) else {
            Issue.record("the group is closed")
            return
        }
        #expect(try read(closed.id).counts.runs == 1)
        for id in [closed.id, made.id] { try age(id, seconds: 3_600) }
        try eventually("the closed one is skipped") { try read(closed.id).counts.skipped == 1 }
        try eventually("the other one has run") { try read(made.id).counts.runs == 2 }
        #expect(try read(closed.id).lastSkip?.reason == .groupClosed)
        #expect(try read(closed.id).nextRunAt != nil && read(closed.id).counts.runs == 1)
        #expect(try read(made.id).lastSkip == nil && jobs(of: made.id).map(\.group) == [year, year])
    }

    @Test("an occurrence whose unique key an unfinished job has is skipped with the reason")
    func unique() throws {
        var rule = UniqueRule()
        rule.key = "night"
        let made = try create { $0.unique = rule }
        let first = try run(made.id).get()
        let again = try run(made.id).get()
        #expect(first.isNew && !again.isNew && again.record.id == first.record.id)
        try age(made.id, seconds: 3_600)
        try eventually("it is skipped") { try read(made.id).counts.skipped == 1 }
        let record = try read(made.id)
        #expect(record.lastSkip?.reason == .uniqueKeyTaken && record.counts.runs == 1)
        #expect(record.lastJob == first.record.id)
        #expect(try jobs(of: made.id).count == 1)
    }

    @Test("two nodes submit each occurrence once")
    func once() throws {
        let other = try TestNode(database.url, slots: 0)
        defer { other.store.stop() }
        let ids = try (0..<40).map { _ in try create(schedule(interval: 0.1)).id }
        try eventually("400 runs") {
            other.store.schedules.wake()
            node.store.schedules.wake()
            return try number("SELECT sum(run_count)::bigint FROM schedules") >= 400
        }
        for id in ids {
            eventually("it is deleted") {
                switch wait({
                    node.store.scheduleCommands.deleteSchedule(id, tenant: "acme", revision: nil, reply: $0)
                }) {
                case .success, .failure(.notFound): true
                case .failure: false
                }
            }
        }
        #expect(
            try number("SELECT count(*) FROM schedule_runs")
                == number("SELECT (SELECT count(*) FROM jobs) + (SELECT count(*) FROM finished_jobs)"))
    }

    @Test(
        "after an outage `missed` decides whether no, one or every missed occurrence runs",
        arguments: ["skip", "run_once", "run_all"])
    func missed(_ policy: String) throws {
        let made = try create(schedule(interval: 1_000, missed: policy))
        try age(made.id, seconds: 4_700)
        let (runs, missed): (Int64, Int64) =
            switch policy {
            case "skip": (0, 4)
            case "run_once": (1, 3)
            default: (4, 0)
            }
        try eventually("the missed occurrences are handled") {
            let counts = try read(made.id).counts
            return counts.runs == runs && counts.missed == missed
        }
        let record = try read(made.id)
        #expect(record.nextScheduledAt == made.createdAt + 300)
        #expect(try jobs(of: made.id).count == Int(runs))
    }

    @Test("with `overlap: queue` an occurrence waits until the earlier job has ended")
    func queue() throws {
        let made = try create(schedule(interval: 100, overlap: "queue"))
        try age(made.id, seconds: 100)
        let first = try node.attempt()
        // The next occurrence is due in half a second.
        try age(made.id, seconds: 99.5)
        try eventually("it is held") {
            try number("SELECT count(*) FROM schedules WHERE is_held") == 1
        }
        #expect(try read(made.id).counts.runs == 1)
        node.end(first, success)
        try eventually("the next one runs") {
            node.store.schedules.wake()
            return try read(made.id).counts.runs == 2
        }
        #expect(try read(made.id).counts.skipped == 0)
    }

    @Test("a queue of occurrences that is 20 s behind catches up with an interval of 1 s")
    func catchesUp() throws {
        node.runner.react { [node] attempt in
            node.store.dispatcher.record(result(attempt, success))
        }
        let made = try create(schedule(interval: 1, missed: "run_all", overlap: "queue"))
        try age(made.id, seconds: 20)
        // At one occurrence each 2 s it would fall further behind.
        try eventually("it is on time") {
            try number("SELECT count(*) FROM schedules WHERE next_scheduled_at > now() - interval '1 s'") == 1
        }
        let record = try read(made.id)
        #expect(record.counts.runs >= 19 && record.counts.skipped == 0 && record.counts.missed == 0)
    }

    @Test("`overlap` skips an occurrence, or cancels the previous job")
    func overlap() throws {
        let skipping = try create(schedule(interval: 100, overlap: "skip"))
        try age(skipping.id, seconds: 100)
        _ = try node.attempt()
        try age(skipping.id, seconds: 99.5)
        try eventually("it is skipped") { try read(skipping.id).counts.skipped == 1 }
        #expect(try read(skipping.id).counts.runs == 1)
        let replacing = try create(schedule(interval: 100, overlap: "cancel_previous"))
        try age(replacing.id, seconds: 100)
        let previous = try node.attempt()
        try age(replacing.id, seconds: 99.5)
        let deadline = Sys.monotonicNanoseconds() + 60_000_000_000
        var cancelled: [JobID] = []
        while !cancelled.contains(previous.job), Sys.monotonicNanoseconds() < deadline {
            cancelled += node.runner.cancelled.wait(milliseconds: 500)
        }
        #expect(cancelled.contains(previous.job))
        #expect(try read(replacing.id).counts.runs == 1)
        node.store.dispatcher.record(result(previous, .cancelled))
        try eventually("the next one runs") {
            node.store.schedules.wake()
            return try read(replacing.id).counts.runs == 2
        }
    }

    @Test("changing and deleting a schedule checks its revision and tenant")
    func changes() throws {
        let made = try create(schedule(interval: 100))
        let paused: ScheduleRecord = try wait { reply in
            node.store.scheduleCommands.changeSchedule(
                made.id, tenant: "acme", revision: 1, jobs: nil,
                { spec in
                    var spec = spec
                    spec.isEnabled = false
                    return spec
                }, reply: reply)
        }.get()
        #expect(paused.revision == 2 && paused.nextRunAt == nil && !paused.spec.isEnabled)
        let stale: Result<Void, StoreError> = wait {
            node.store.scheduleCommands.deleteSchedule(made.id, tenant: "acme", revision: 1, reply: $0)
        }
        #expect(stale.failure == .stale(revision: 2))
        let foreign: Result<ScheduleRecord, StoreError> = wait {
            node.store.scheduleCommands.schedule(made.id, tenant: "other", reply: $0)
        }
        #expect(foreign.failure == .notFound)
        let removed: Result<Void, StoreError> = wait {
            node.store.scheduleCommands.deleteSchedule(made.id, tenant: "acme", revision: 2, reply: $0)
        }
        #expect(removed.failure == nil)
        let gone: Result<ScheduleRecord, StoreError> = wait {
            node.store.scheduleCommands.schedule(made.id, tenant: "acme", reply: $0)
        }
        #expect(gone.failure == .notFound)
    }

    @Test("a creation and a run by hand with the same key are repeated")
    func idempotency() throws {
        let key = { (body: UInt8) in
            Submission.Idempotency(tenant: "acme", route: "POST /v1/schedules", key: "k", fingerprint: [body])
        }
        let first = try create(schedule(interval: 100, enabled: false), key: key(1))
        #expect(try create(schedule(interval: 100), key: key(1)).id == first.id)
        let other: Result<ScheduleRecord, StoreError> = wait { reply in
            guard let schedule = try? schedule(interval: 5) else { return }
            node.store.scheduleCommands.createSchedule(schedule, key(2)) { reply($0.map(\.record)) }
        }
        #expect(other.failure == .idempotencyKeyReused)
        let run = { [node] () throws -> (JobID, Bool) in
            let accepted = try wait { reply in
                node.store.scheduleCommands.runSchedule(
                    first.id, tenant: "acme",
                    .init(tenant: "acme", route: "run", key: "r", fingerprint: [1]), traceparent: "t",
                    reply: reply)
            }.single.get()
            return (accepted.record.id, accepted.isReplay)
        }
        let (job, isReplay) = try run()
        #expect(!isReplay)
        let (again, isAgain) = try run()
        #expect(again == job && isAgain)
        let record = try read(first.id)
        #expect(record.counts.runs == 1 && record.lastJob == job && record.nextRunAt == nil)
        #expect(try jobs(of: first.id).map(\.id) == [job])
        #expect(try node.attempt().job == job)
    }

    @Test("a schedule with an unreadable row is postponed, and the others run")
    func damaged() throws {
        let bad = try create(schedule(interval: 100))
        var connection = try Connection(url: database.url)
        try connection.execute(script: "UPDATE schedules SET specs = ARRAY['{']")
        let good = try create(schedule(interval: 100))
        try age(bad.id, seconds: 100)
        try age(good.id, seconds: 100)
        #expect(try node.attempt().spec.occurrence?.schedule == good.id)
        try eventually("it is put off") {
            try number(
                """
                SELECT count(*) FROM schedules WHERE run_count = 0
                    AND next_run_at > now() + interval '50 min'
                """
            )
                == 1
        }
    }

    @Test("a schedule with an unreadable definition is left out of lists and can be deleted")
    func damagedDefinition() throws {
        let ids = try (0..<3).map { _ in try create(schedule(interval: 100)).id }.sorted()
        var connection = try Connection(url: database.url)
        try connection.execute(
            script: """
                UPDATE schedules SET definition = replace(definition, '"end_at":null',
                    '"end_at":"0000-12-31T23:00:00.000000Z"') WHERE id = '\(uuid(ids[1]))'
                """)
        let page: [ScheduleRecord] = try wait {
            node.store.scheduleCommands.schedules(tenant: "acme", before: nil, limit: 2, reply: $0)
        }.get()
        #expect(page.map(\.id) == [ids[2], ids[0]])
        let stale: Result<Void, StoreError> = wait {
            node.store.scheduleCommands.deleteSchedule(ids[1], tenant: "acme", revision: 7, reply: $0)
        }
        #expect(stale.failure == .stale(revision: 1))
        let foreign: Result<Void, StoreError> = wait {
            node.store.scheduleCommands.deleteSchedule(ids[1], tenant: "other", revision: nil, reply: $0)
        }
        #expect(foreign.failure == .notFound)
        let removed: Result<Void, StoreError> = wait {
            node.store.scheduleCommands.deleteSchedule(ids[1], tenant: "acme", revision: 1, reply: $0)
        }
        #expect(removed.failure == nil)
        #expect(try number("SELECT count(*) FROM schedules") == 2)
    }

    @Test("a schedule whose job the database refuses is postponed, and the others run")
    func refused() throws {
        var connection = try Connection(url: database.url)
        try connection.execute(
            script: "ALTER TABLE jobs ADD CONSTRAINT refused CHECK (origin <> 'https://refused.example:443')")
        let bad = NewSchedule(
            id: TestNode.identifiers.make(), tenant: "acme", spec: try schedule(interval: 100).spec,
            jobs: ScheduleJobs(newJob(host: "refused.example").request))
        let ids = [try create(bad).id, try create(schedule(interval: 100)).id]
        for id in ids { try age(id, seconds: 100) }
        #expect(try node.attempt().spec.occurrence?.schedule == ids[1])
        try eventually("it is put off") {
            try number("SELECT count(*) FROM schedules WHERE next_run_at > now() + interval '50 min'") == 1
        }
        #expect(try read(ids[0]).counts.runs == 0)
    }

    @Test("due schedules among a hundred thousand are found by the index")
    func plan() throws {
        var options = ConnectionOptions()
        options.pinsPlans = true
        options.statementTimeout = .seconds(300)
        var connection = try Connection(url: database.url, options: options)
        try connection.execute(
            script: """
                INSERT INTO schedules (id, tenant, created_at, updated_at, next_scheduled_at, next_run_at,
                    watches_jobs, definition, specs, secrets, payloads)
                SELECT gen_random_uuid(), 'many', now(), now(), now() + n * interval '1 min',
                    now() + n * interval '1 min', false, '{}', '{}', '{}', '{}'
                FROM generate_series(1, 100000) n;
                """)
        var parameters = Parameters()
        parameters.append(int32: 200)
        parameters.append(timestamp: 0)
        parameters.append(int64: 1 << 20)
        let explained = Statement(
            "explained", "EXPLAIN (ANALYZE, BUFFERS OFF) " + Statements.dueSchedules.sql, parameters: 3)
        let rows = try connection.execute(explained, parameters)
        let plan = (0..<rows.rowCount).map { rows.text($0, 0) }.joined(separator: "\n")
        #expect(plan.contains("schedules_due") && !plan.contains("Sort"), "\(plan)")
        #expect(try connection.execute(Statements.nextSchedule).rowCount == 1)
    }

    @Test("runs of deleted jobs are removed, the others are kept")
    func sweep() throws {
        let made = try create(schedule(interval: 100))
        try age(made.id, seconds: 100)
        let attempt = try node.attempt()
        var connection = try Connection(url: database.url)
        try connection.execute(
            script: """
                -- The node's own pass is over, and the next one not due.
                SELECT pg_advisory_lock(x'6665727279737770'::bigint);
                INSERT INTO schedule_runs SELECT gen_random_uuid(), now(), gen_random_uuid(), 0
                FROM generate_series(1, 5)
                """
        )
        var parameters = Parameters()
        parameters.append(uuid: 0, 0)
        parameters.append(int32: 4)
        var looks = 0
        while true {
            let rows = try connection.execute(Statements.sweepRuns, parameters)
            looks += 1
            guard !rows.isNull(0, 0) else { break }
            let last = rows.uuid(0, 0)
            parameters.removeAll()
            parameters.append(uuid: last.high, last.low)
            parameters.append(int32: 4)
        }
        #expect(looks == 2)
        #expect(try number("SELECT count(*) FROM schedule_runs") == 1)
        #expect(try jobs(of: made.id).map(\.id) == [attempt.job])
    }
}

extension Result {
    fileprivate var failure: Failure? {
        if case .failure(let error) = self { error } else { nil }
    }
}
