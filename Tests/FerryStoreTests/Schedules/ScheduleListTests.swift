import FerryCore
import Postgres
import TestSupport
import TestThreads
import Testing

@testable import FerryStore

@Suite("Schedules with several jobs", .onOwnThread)
struct ScheduleListTests {
    let database: TestDatabase

    init() throws { database = try TestDatabase(template: template) }

    private func definition(overlap: String = "allow") throws -> ScheduleSpec {
        let json =
            #"{"time_zone":"UTC","missed":"run_once","overlap":"\#(overlap)","enabled":true,"interval":3600}"#
        return try ScheduleSpec(storedJSON: Array(json.utf8))
    }

    private func request(_ change: (inout JobSpec) -> Void = { _ in }) -> JobRequest {
        var spec = newJob(attemptCountMax: 1).spec
        change(&spec)
        return newJob().with(spec).request
    }

    private func create(
        _ jobs: ScheduleJobs, overlap: String = "allow", _ node: TestNode
    ) throws -> ScheduleID {
        let schedule = NewSchedule(
            id: TestNode.identifiers.make(), tenant: "acme", spec: try definition(overlap: overlap),
            jobs: jobs)
        return try wait { reply in
            node.store.scheduleCommands.createSchedule(schedule, nil) { reply($0.map(\.record)) }
        }.get().id
    }

    private func read(_ id: ScheduleID, _ node: TestNode) throws -> ScheduleRecord {
        try wait { node.store.scheduleCommands.schedule(id, tenant: "acme", reply: $0) }.get()
    }

    private func run(
        _ id: ScheduleID, key: Submission.Idempotency? = nil, _ node: TestNode
    ) -> Result<ScheduleRun, StoreError> {
        wait {
            node.store.scheduleCommands.runSchedule(id, tenant: "acme", key, traceparent: "t", reply: $0)
        }
    }

    private func jobs(of id: ScheduleID, _ node: TestNode) throws -> [JobRecord] {
        var query = JobQuery(tenant: "acme", limit: 500)
        query.schedule = id
        // Their identifiers have the order of the list.
        return try wait { node.store.jobs.jobs(query, reply: $0) }.get().records.sorted { $0.id < $1.id }
    }

    /// Makes an occurrence of all schedules due.
    private func makeDue(_ node: TestNode) throws {
        var connection = try Connection(url: database.url)
        try connection.execute(
            script: "UPDATE schedules SET next_scheduled_at = now(), next_run_at = now()")
        node.store.schedules.wake()
    }

    private func number(_ sql: String) throws -> Int64 {
        var connection = try Connection(url: database.url)
        return try connection.execute(Statement("number", sql)).int64(0, 0)
    }

    private func brokenRules() throws -> [BrokenRule] {
        var connection = try Connection(url: database.url)
        return try RowCheck.brokenRules(&connection)
    }

    /// A list whose second job sends the file of the first one, and depends on it.
    private func chain(_ list: ScheduleJobs.List) -> ScheduleJobs {
        let first = request { $0.group = list.group }
        let second = request {
            $0.group = list.group
            ($0.kind, $0.source) = (.upload, .job(JobID(placeInList: 0)))
            $0.schedule.dependencies = [.job(JobID(placeInList: 0))]
        }
        return ScheduleJobs([first, second], list)
    }

    @Test("each run has all jobs, whose references lead to the run's own jobs, and closes its group")
    func runs() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let list = ScheduleJobs.List(group: "night-{scheduled_at:unix}", closesGroup: true)
        let id = try create(chain(list), node)
        try makeDue(node)
        let attempt = try node.attempt()
        let all = try jobs(of: id, node)
        #expect(all.map(\.id).first == attempt.job && all.count == 2)
        #expect(all.map(\.spec?.occurrence?.place) == [0, 1])
        #expect(all.last?.spec?.schedule.dependsOn == [attempt.job] && all.last?.state == .waiting)
        #expect(all.last?.spec?.source == .job(attempt.job))
        let record = try read(id, node)
        #expect(record.counts.runs == 1 && record.lastJob == attempt.job && record.list == list)
        #expect(record.templates.last?.spec?.schedule.dependsOn == [JobID(placeInList: 0)])
        let group = try #require(all.first?.group)
        #expect(group.hasPrefix("night-1") && all.last?.group == group)
        #expect(try node.group(group).state == .closed)
        node.end(attempt, success)
        #expect(try node.attempt().job == all.last?.id)
        #expect(try brokenRules() == [])
    }

    @Test("a run by hand responds with all jobs, also a repeated one whose schedule was replaced or deleted")
    func byHand() throws {
        let node = try TestNode(database.url, slots: 0)
        defer { node.store.stop() }
        let id = try create(chain(.init()), node)
        let repeated = key("run")
        let first = try run(id, key: repeated, node).several.get()
        #expect(first.jobs.map(\.state) == [.queued, .waiting] && first.areNew && !first.isReplay)
        #expect(try jobs(of: id, node).map(\.id) == first.jobs.map(\.id))
        let single = ScheduleJobs(request())
        _ = try wait { reply in
            node.store.scheduleCommands.changeSchedule(
                id, tenant: "acme", revision: nil, jobs: single, { $0 }, reply: reply)
        }.get()
        #expect(try read(id, node).list == nil && read(id, node).templates.count == 1)
        let again = try run(id, key: repeated, node).several.get()
        #expect(again.isReplay && again.jobs.map(\.id) == first.jobs.map(\.id))
        #expect(try run(id, node).single.get().record.spec?.occurrence?.place == nil)
        let removed: Result<Void, StoreError> = wait {
            node.store.scheduleCommands.deleteSchedule(id, tenant: "acme", revision: nil, reply: $0)
        }
        try removed.get()
        #expect(try run(id, key: repeated, node).several.get().jobs.map(\.id) == first.jobs.map(\.id))
        #expect(try number("SELECT count(*) FROM jobs") == 3)
    }

    @Test("an occurrence is skipped as a whole if a group is closed or a limit has no place for all its jobs")
    func skipped() throws {
        let node = try TestNode(database.url, slots: 0) { $0.jobCountMax = 4 }
        defer { node.store.stop() }
        let closed = try create(
            ScheduleJobs([request(), request { $0.group = "closed" }], .init()), node)
        _ = try node.submit([request { $0.group = "closed" }].map { newJob().with($0.spec) }).get()
        _ = try node.close("closed").get()
        guard case .failure(.groupClosed) = run(closed, node) else {
            Issue.record("the group is closed")
            return
        }
        let many = try create(ScheduleJobs((0..<4).map { _ in request() }, .init()), node)
        guard case .failure(.tooManyJobs) = run(many, node) else {
            Issue.record("three jobs at most have a place")
            return
        }
        try makeDue(node)
        try eventually("both are skipped") {
            try read(closed, node).counts.skipped == 1 && read(many, node).counts.skipped == 1
        }
        #expect(try read(closed, node).lastSkip?.reason == .groupClosed)
        #expect(try read(many, node).lastSkip?.reason == .tooManyJobs)
        #expect(try number("SELECT count(*) FROM jobs") == 1)
        let few = try create(ScheduleJobs((0..<3).map { _ in request() }, .init()), node)
        #expect(try run(few, node).several.get().jobs.count == 3, "nothing is held back for skipped jobs")
    }

    @Test("a job with dependencies that joins a group on which jobs depend is refused with its run")
    func awaited() throws {
        let node = try TestNode(database.url, slots: 0)
        defer { node.store.stop() }
        let id = try create(chain(.init(group: "night")), node)
        let member = newJob().with(request { $0.group = "night" }.spec)
        let dependent = newJob().with(request { $0.schedule.dependencies = [.group("night")] }.spec)
        _ = try node.submit([member, dependent]).get()
        try makeDue(node)
        try eventually("it is skipped") { try read(id, node).counts.skipped == 1 }
        #expect(try read(id, node).lastSkip?.reason == .groupAwaited)
        #expect(try jobs(of: id, node).isEmpty)
    }

    @Test("with `overlap: skip`, each job of the last run counts")
    func overlap() throws {
        let node = try TestNode(database.url, slots: 200)
        defer { node.store.stop() }
        let count = Limits.scheduleOverlapMax + 20
        let id = try create(
            ScheduleJobs((0..<count).map { _ in request() }, .init()), overlap: "skip", node)
        try makeDue(node)
        let attempts = try node.attempts(count).sorted { $0.job < $1.job }
        // The first job is beyond the latest ones.
        for attempt in attempts.dropFirst() { node.end(attempt, success) }
        for attempt in attempts.dropFirst() { node.waitUntilFinished(attempt.job) }
        try makeDue(node)
        try eventually("it is skipped") { try read(id, node).counts.skipped == 1 }
        #expect(try read(id, node).lastSkip?.reason == .overlap && read(id, node).counts.runs == 1)
        node.end(attempts[0], success)
        node.waitUntilFinished(attempts[0].job)
        try makeDue(node)
        try eventually("it runs again") { try read(id, node).counts.runs == 2 }
        #expect(try jobs(of: id, node).count == 2 * count)
    }

    @Test("jobs whose unique keys are taken are those of other jobs; without a new job the run is skipped")
    func unique() throws {
        let node = try TestNode(database.url, slots: 0)
        defer { node.store.stop() }
        var rule = UniqueRule()
        rule.key = "night"
        let unique = request { $0.unique = rule }
        let dependent = request { $0.schedule.dependencies = [.job(JobID(placeInList: 0))] }
        let id = try create(ScheduleJobs([unique, dependent], .init()), node)
        let taken = try create(ScheduleJobs([unique], .init(group: "night", closesGroup: true)), node)
        let first = try run(id, node).several.get()
        #expect(first.jobs.map(\.isNew) == [true, true])
        let again = try run(id, node).several.get()
        #expect(again.jobs.map(\.isNew) == [false, true] && again.jobs[0].id == first.jobs[0].id)
        let second = try node.job(again.jobs[1].id).get().record
        #expect(second.spec?.schedule.dependsOn == [first.jobs[0].id])
        #expect(try run(taken, node).several.get().jobs.map(\.isNew) == [false])
        try makeDue(node)
        try eventually("one runs, one is skipped") {
            try read(id, node).counts.runs == 3 && read(taken, node).counts.skipped == 1
        }
        #expect(try read(taken, node).lastSkip?.reason == .uniqueKeyTaken)
        #expect(try read(id, node).lastJob == jobs(of: id, node).last?.id)
        #expect(try read(taken, node).lastJob == nil && jobs(of: taken, node).isEmpty)
        #expect(try jobs(of: id, node).count == 4)
        #expect(try number("SELECT count(*) FROM job_groups") == 0, "a skipped run closes no group")
    }

    @Test("one transaction submits about a thousand jobs and leaves other due schedules to the next one")
    func bounded() throws {
        let node = try TestNode(database.url, slots: 0)
        let ids = try [Limits.scheduleJobCountMax, 1].map { count in
            try create(ScheduleJobs((0..<count).map { _ in request() }, .init()), node)
        }
        node.store.stop()
        var connection = try Connection(url: database.url)
        // The longer one is due first.
        try connection.execute(
            script: "UPDATE schedules SET next_scheduled_at = created_at, next_run_at = created_at")
        let next = try TestNode(database.url, slots: 0)
        defer { next.store.stop() }
        try eventually("all run") {
            try number("SELECT count(*) FROM schedules WHERE run_count = 1") == 2
        }
        for id in ids { #expect(try read(id, next).counts.runs == 1) }
        #expect(try number("SELECT count(*) FROM jobs") == Int64(Limits.scheduleJobCountMax) + 1)
        let moments = try number("SELECT count(DISTINCT last_run_at) FROM schedules")
        #expect(moments == 2, "each in a transaction of its own")
    }

    @Test("one transaction reads a few megabytes of jobs and leaves other due schedules to the next one")
    func boundedBytes() throws {
        let node = try TestNode(database.url, slots: 0)
        for _ in 0..<4 { _ = try create(ScheduleJobs([request()], .init()), node) }
        node.store.stop()
        var connection = try Connection(url: database.url)
        try connection.execute(
            script: """
                UPDATE schedules SET next_scheduled_at = now(), next_run_at = now(), payloads = ARRAY[(
                    SELECT string_agg(sha512((id::text || n)::bytea), '') FROM generate_series(1, 50000) n)];
                """)
        let size = try number("SELECT min(pg_column_size(payloads))::bigint FROM schedules")
        #expect(size * 2 > Limits.scheduleBatchByteCountMax / 2 && size < Limits.scheduleBatchByteCountMax)
        let next = try TestNode(database.url, slots: 0)
        defer { next.store.stop() }
        try eventually("all run") {
            try number("SELECT count(*) FROM schedules WHERE run_count = 1") == 4
        }
        #expect(try number("SELECT count(DISTINCT last_run_at) FROM schedules") == 2, "two at a time")
    }

    @Test("lists of schedules leave the jobs of a list out, and a pause keeps them")
    func lists() throws {
        let node = try TestNode(database.url, slots: 0)
        defer { node.store.stop() }
        let list = ScheduleJobs.List(group: "night", closesGroup: true)
        let ids = [try create(chain(list), node), try create(ScheduleJobs(request()), node)]
        let page: [ScheduleRecord] = try wait {
            node.store.scheduleCommands.schedules(tenant: "acme", before: nil, limit: 10, reply: $0)
        }.get().sorted { $0.id < $1.id }
        #expect(page.map(\.id) == ids && page.map(\.templates.count) == [0, 1])
        #expect(page.map(\.list) == [list, nil])
        let paused = try wait { reply in
            node.store.scheduleCommands.changeSchedule(
                ids[0], tenant: "acme", revision: nil, jobs: nil,
                { spec in
                    var spec = spec
                    spec.isEnabled = false
                    return spec
                }, reply: reply)
        }.get()
        #expect(paused.templates.count == 2 && paused.list == list && !paused.spec.isEnabled)
    }
}
