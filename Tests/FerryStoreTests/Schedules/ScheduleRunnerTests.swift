import FerryCore
import Logging
import Postgres
import TestSupport
import TestThreads
import Testing

@testable import FerryStore

@Suite("Schedule runner: sweep, admission and discretionary jobs", .onOwnThread)
struct ScheduleRunnerTests {
    let database: TestDatabase

    init() throws { database = try TestDatabase(template: template) }

    private func number(_ sql: String) throws -> Int64 {
        var connection = try Connection(url: database.url)
        return try connection.execute(Statement("number", sql)).int64(0, 0)
    }

    @Test("one node at a time sweeps runs, and continues at once while there are more")
    func sweeps() throws {
        var connection = try Connection(url: database.url)
        try connection.execute(
            script: """
                SELECT pg_advisory_lock(x'6665727279737770'::bigint);
                INSERT INTO schedule_runs SELECT gen_random_uuid(), now(), gen_random_uuid(), 0
                FROM generate_series(1, 4500)
                """)
        let held = try TestNode(database.url)
        defer { held.store.stop() }
        let often = try schedule(interval: 0.01)
        _ = try wait { reply in
            held.store.scheduleCommands.createSchedule(often, nil) { reply($0.map(\.record)) }
        }
        .get()
        held.store.schedules.wake()
        // Its thread has had several turns by then.
        _ = try held.attempts(3)
        let made = try number("SELECT count(*) FROM schedule_runs")
        #expect(made >= 4_500, "another node holds the sweep lock")
        try connection.execute(script: "SELECT pg_advisory_unlock_all()")
        let next = try TestNode(database.url)
        defer { next.store.stop() }
        try eventually("three steps") {
            try number(
                """
                SELECT count(*) FROM schedule_runs r WHERE NOT EXISTS (SELECT FROM jobs WHERE id = r.job)
                    AND NOT EXISTS (SELECT FROM finished_jobs WHERE id = r.job)
                """) == 0
        }
    }

    private func schedule(interval: Double) throws -> NewSchedule {
        let json =
            #"{"time_zone":"UTC","missed":"skip","overlap":"allow","enabled":true,"interval":\#(interval)}"#
        return NewSchedule(
            id: TestNode.identifiers.make(), tenant: "acme",
            spec: try ScheduleSpec(storedJSON: Array(json.utf8)),
            jobs: ScheduleJobs(newJob().request))
    }

    @Test("a tenant at its job limit gets no jobs from schedules or runs by hand")
    func admission() throws {
        let node = try TestNode(database.url, slots: 0) { $0.jobCountMax = 5 }
        defer { node.store.stop() }
        let store = node.store
        let schedule = try schedule(interval: 3_600)
        _ = try wait { reply in
            store.scheduleCommands.createSchedule(schedule, nil) { reply($0.map(\.record)) }
        }.get()
        let run = { (key: Submission.Idempotency?) in
            wait {
                store.scheduleCommands.runSchedule(
                    schedule.id, tenant: "acme", key, traceparent: newTraceparent(), reply: $0)
            }.single
        }
        let first = try run(key("first")).get().record.id
        _ = try node.submit((0..<4).map { _ in newJob() }).get()
        guard case .failure(.tooManyJobs(5, let seconds)) = run(key("second")) else {
            Issue.record("a run was accepted")
            return
        }
        #expect(seconds > 0)
        let again = try run(key("first")).get()
        #expect(again.isReplay && again.record.id == first)
        var connection = try Connection(url: database.url)
        try connection.execute(
            script: "UPDATE schedules SET next_scheduled_at = now(), next_run_at = now()")
        node.store.schedules.wake()
        let read = {
            try wait { store.scheduleCommands.schedule(schedule.id, tenant: "acme", reply: $0) }.get().counts
        }
        try eventually("the occurrence was skipped or run") { try read().skipped + read().runs > 1 }
        let counts = try read()
        #expect(counts.skipped == 1 && counts.runs == 1 && counts.missed == 0)
        #expect(try number("SELECT count(*) FROM jobs") == 5)
        eventually("and counted by its reason") { node.store.metrics.surplusOccurrences == 1 }
        #expect(node.store.metrics.skippedOccurrences == 0)
    }

    /// The transaction of a node without running jobs, which may start jobs in half of `slots`.
    private func transaction(slots: Int) -> DiscretionaryTransaction {
        let insertion = JobInsertion(
            StoreConfiguration(
                url: database.url, node: TestNode.identifiers.make(), nodeName: "test", version: "0",
                isWorker: true, slots: WorkerSlots(capacity: slots), clock: DatabaseClock(),
                logger: Logger(label: "test"), seal: .inverted, openSecrets: { _ in nil },
                sealSecrets: { _ in [] },
                hashCredentials: { _ in "0" }))
        return DiscretionaryTransaction(
            context: insertion.context, nodeState: insertion.nodeState, now: insertion.context.clock.now())
    }

    private func connect() throws -> Connection {
        var options = ConnectionOptions()
        options.settings = [.init("ferry.shard", "test")]
        return try Connection(url: database.url, options: options)
    }

    private func windows(budget: Int) throws -> OffPeakWindows {
        try #require(
            OffPeakWindows(
                storedJSON: Array(
                    """
                    {"windows":[{"name":"d","cron":"0 0 * * *","duration":604800,"max_bytes":\(budget)}]}
                    """.utf8)))
    }

    private func states(_ jobs: [NewJob], on node: TestNode) throws -> [JobState] {
        try jobs.map { try node.job($0.id, tenant: $0.tenant).get().record.state }
    }

    @Test("60 jobs too large for the budget do not hide a smaller one behind them")
    func smallBehindLarge() throws {
        let api = try TestNode(database.url, isWorker: false)
        defer { api.store.stop() }
        let large = (0..<60).map { _ in discretionaryJob(bytes: 2_000) }
        let small = discretionaryJob(bytes: 500)
        _ = try api.submit(large).get()
        _ = try api.submit([small]).get()
        var connection = try connect()
        let windows = try windows(budget: 3_000)
        #expect(try transaction(slots: 100).commit(&connection, windows) == 1)
        #expect(try transaction(slots: 100).commit(&connection, windows) == 1)
        #expect(try states([small], on: api) == [.queued])
        #expect(try transaction(slots: 100).commit(&connection, windows) == 0)
        #expect(try countedStates(database.url) == ["queued": 2, "waiting": 59])
    }

    @Test("jobs whose host is held or unreachable do not start and use no budget")
    func heldHosts() throws {
        let api = try TestNode(database.url, isWorker: false)
        defer { api.store.stop() }
        let held = ["paused", "away", "busy"].map { discretionaryJob(host: "\($0).example", bytes: 1_000) }
        _ = try api.submit(held).get()
        let free = discretionaryJob(bytes: 3_000)
        _ = try api.submit([free]).get()
        var connection = try connect()
        try connection.execute(
            script: """
                INSERT INTO hosts (origin, unreachable) VALUES ('https://paused.example:443', NULL),
                    ('https://busy.example:443', NULL), ('https://away.example:443', 'could_not_connect');
                INSERT INTO host_limits (origin, blocked_until) VALUES
                    ('https://paused.example:443', now() + interval '9 years'),
                    ('https://busy.example:443', now() + interval '1 hour')
                """)
        let windows = try windows(budget: 3_000)
        #expect(try transaction(slots: 8).commit(&connection, windows) == 1)
        #expect(try states(held + [free], on: api) == [.waiting, .waiting, .waiting, .queued])
        try connection.execute(script: "DELETE FROM hosts")
        #expect(try transaction(slots: 8).commit(&connection, OffPeakWindows()) == 3)
    }

    @Test("tenants and sessions take turns, however many jobs one of them has waiting")
    func turns() throws {
        let api = try TestNode(database.url, isWorker: false)
        defer { api.store.stop() }
        let many = (0..<40).map { _ in discretionaryJob() }
        _ = try api.submit(many).get()
        let few = [
            discretionaryJob(session: "other"), discretionaryJob(tenant: "b"), discretionaryJob(tenant: "c"),
        ]
        for job in few { _ = try api.submit([job]).get() }
        var connection = try connect()
        // Two jobs of the first tenant, one of each other tenant.
        #expect(try transaction(slots: 8).commit(&connection, OffPeakWindows()) == 4)
        #expect(try states(few, on: api) == [.queued, .queued, .queued])
        #expect(try states([many[0]], on: api) == [.queued], "the one that has waited longest")
    }

    @Test("the transaction for discretionary jobs counts the free slots once, when it is created")
    func freeSlots() throws {
        let api = try TestNode(database.url, isWorker: false)
        defer { api.store.stop() }
        let jobs = (0..<6).map { _ in discretionaryJob() }
        _ = try api.submit(jobs).get()
        let slots = WorkerSlots(capacity: 4)
        let insertion = JobInsertion(
            StoreConfiguration(
                url: database.url, node: TestNode.identifiers.make(), nodeName: "test", version: "0",
                isWorker: true, slots: slots, clock: DatabaseClock(), logger: Logger(label: "test"),
                seal: .inverted, openSecrets: { _ in nil }, sealSecrets: { _ in [] },
                hashCredentials: { _ in "0" }))
        let transaction = DiscretionaryTransaction(
            context: insertion.context, nodeState: insertion.nodeState, now: insertion.context.clock.now())
        #expect(slots.reserve(upTo: 4) == 4)
        var options = ConnectionOptions()
        options.settings = [.init("ferry.shard", "test")]
        var connection = try Connection(url: database.url, options: options)
        #expect(try transaction.commit(&connection, OffPeakWindows()) == 2)
        #expect(try countedStates(database.url) == ["queued": 2, "waiting": 4])
        let full = DiscretionaryTransaction(
            context: insertion.context, nodeState: insertion.nodeState, now: insertion.context.clock.now())
        #expect(try full.commit(&connection, OffPeakWindows()) == 0)
    }
}
