import FerryCore
import FerryStore
import Postgres
import Synchronization
import Sys
import TestSupport
import TestThreads
import Testing

/// Errors of the database that last for a while change the time of results, not the results.
@Suite("Errors in any table", .onOwnThread)
struct TableErrorTests {
    static let tables = [
        "jobs", "finished_jobs", "job_counts", "job_dependencies", "dependency_outbox", "claim_queues",
        "hosts",
        "event_inbox", "events", "sessions", "deliveries", "delivery_tries", "schedules", "schedule_runs",
        "idempotency_keys", "unacknowledged_jobs",
    ]
    /// Statement timeout, and rollback after a deadlock.
    static let troubles =
        tables.map { ($0, "57014") }
        + ["jobs", "event_inbox", "deliveries", "sessions"].map { ($0, "40P01") }

    @Test(
        "after errors in a table each job succeeds once, each event is written, and no row is left",
        arguments: troubles)
    func trouble(in table: String, _ state: String) throws {
        let database = try TestDatabase(template: template)
        let day = try Day(database.url)
        defer { day.node.store.stop() }
        var connection = try Connection(url: database.url)
        // Of the first 24 rows that anybody would touch a third, in no order.
        try connection.execute(
            script: """
                CREATE SEQUENCE touches;
                CREATE FUNCTION trouble() RETURNS trigger LANGUAGE plpgsql AS $$
                DECLARE n bigint := nextval('touches');
                BEGIN
                    IF n <= 24 AND n * 2654435761 % 97 % 3 = 0 THEN
                        RAISE EXCEPTION 'trouble' USING ERRCODE = '\(state)';
                    END IF;
                    RETURN NULL;
                END $$;
                CREATE TRIGGER trouble AFTER INSERT OR UPDATE OR DELETE ON \(table)
                FOR EACH ROW EXECUTE FUNCTION trouble()
                """)
        try day.pass(&connection)
        try day.check(&connection)
        let touched = Statement("touched", "SELECT is_called FROM touches")
        #expect(try connection.execute(touched).bool(0, 0), "the table is not touched at all")
    }
}

/// A node and jobs of every kind, each of which ends well when the database does what it is asked.
private final class Day: Sendable {
    let node: TestNode
    private let url: String
    private let prober = ScriptedProber()
    /// Jobs whose next attempt fails.
    private let failing = Mutex<Set<JobID>>([])
    private let isAway = Atomic<Bool>(true)
    private let plain = newJob(session: "day", webhook: true)
    private let retried = newJob(session: "day", attemptCountMax: 10, webhook: true)
    private let away = newJob(session: "day", host: "away.example", attemptCountMax: 1, webhook: true)
    private let late = newJob(
        session: "day", beginAt: Timestamp(microseconds: Sys.wallMicroseconds()) + 0.5, webhook: true)
    private let held = newJob(
        session: "day", beginAt: Timestamp(microseconds: Sys.wallMicroseconds()) + 3_600)
    private let acknowledged = newJob(session: "day", acknowledgement: AcknowledgementRules())
    private let dependent: NewJob
    private let confirmed: NewJob
    private var jobs: [NewJob] {
        [plain, retried, away, late, held, acknowledged, dependent, confirmed]
    }

    init(_ url: String) throws {
        self.url = url
        node = try TestNode(url, prober: prober)
        dependent = Self.changed(newJob(session: "day")) { [plain, retried] spec in
            spec.schedule.dependencies = [.job(plain.id), .job(retried.id)]
        }
        confirmed = Self.changed(newJob(session: "day", webhook: true)) { spec in
            spec.schedule.confirmsBeforeBegin = true
            spec.questions.timeout = 0.5
        }
        failing.withLock { $0 = [retried.id] }
        node.runner.react { [unowned self] attempt in
            let outcome: AttemptResult.Outcome =
                if attempt.job == away.id, isAway.load(ordering: .relaxed) {
                    .failed(
                        TransferError(
                            .couldNotConnect, "It was refused.", phase: .connecting, isRetryable: true),
                        retryAfter: nil)
                } else {
                    failing.withLock { $0.remove(attempt.job) } == nil ? success : failure()
                }
            node.store.dispatcher.record(result(attempt, outcome))
        }
    }

    private static func changed(_ job: NewJob, _ change: (inout JobSpec) -> Void) -> NewJob {
        var spec = job.spec
        change(&spec)
        return job.with(spec)
    }

    /// Until no job is left.
    func pass(_ connection: inout Connection) throws {
        let store = node.store
        for job in jobs where job.id != dependent.id { try submit(job) }
        _ = try insist {
            store.dependencies.prepareDependencies([plain.id, retried.id], tenant: "acme", reply: $0)
        }
        try submit(dependent)
        _ = try insist { store.jobCommands.suspend(held.id, tenant: "acme", reply: $0) }
        _ = try insist { store.jobCommands.resume(held.id, tenant: "acme", reply: $0) }
        _ = try insist {
            store.jobCommands.edit(
                held.id, tenant: "acme",
                { draft throws(InvalidFields) in
                    var draft = draft
                    draft.spec.schedule.earliestBeginAt = nil
                    return draft
                }, reply: $0)
        }
        try beginSchedule(&connection)
        try eventually("everything has ended") {
            for probe in prober.asked.take() {
                isAway.store(false, ordering: .relaxed)
                probe.reply(nil)
            }
            let status = try insist { store.status.read(reply: $0) }
            return try status.waiting + status.queued + status.running + status.suspended == 0
                && finishedCount(&connection) == jobs.count + 1
        }
        _ = try insist { store.jobCommands.acknowledge(acknowledged.id, tenant: "acme", reply: $0) }
    }

    private func submit(_ job: NewJob) throws {
        let accepted = try insist { reply in
            node.store.submissions.submit(
                Submission(jobs: [job], idempotency: key("\(job.id)"), reply: reply))
        }
        #expect(accepted.jobs.map(\.id) == [job.id])
    }

    /// One that is due once.
    private func beginSchedule(_ connection: inout Connection) throws {
        let json =
            #"{"time_zone":"UTC","missed":"run_once","overlap":"allow","enabled":true,"interval":86400}"#
        let schedule = NewSchedule(
            id: TestNode.identifiers.make(), tenant: "acme",
            spec: try ScheduleSpec(storedJSON: Array(json.utf8)),
            jobs: ScheduleJobs(newJob(session: "day").request))
        _ = try insist { reply in
            node.store.scheduleCommands.createSchedule(schedule, nil) { reply($0.map(\.record)) }
        }
        // Without the trigger.
        try connection.execute(
            script: """
                SET session_replication_role = replica;
                UPDATE schedules SET next_scheduled_at = now(), next_run_at = now();
                RESET session_replication_role
                """)
        node.store.schedules.wake()
    }

    /// Delivers what is due, to receivers that answer 204.
    private func deliver() throws {
        let found = Mailbox<ClaimedDeliveries>()
        node.store.deliveries.claim(DeliveryDemand(total: 100, other: 100), leaseSeconds: 600) {
            found.send($0)
        }
        let due = try #require(found.wait(milliseconds: 60_000).first).due
        if !due.isEmpty { node.store.deliveries.record(due.map { tried($0, .accepted, status: 204) }) }
    }

    private func finishedCount(_ connection: inout Connection) throws -> Int {
        let statement = Statement(
            "finished", "SELECT count(*) FROM finished_jobs WHERE state = 'succeeded'")
        return Int(try connection.execute(statement).int64(0, 0))
    }

    func check(_ connection: inout Connection) throws {
        let left = Statement(
            "left_over",
            """
            SELECT (SELECT count(*) FROM jobs), (SELECT count(*) FROM dependency_outbox),
                (SELECT count(*) FROM job_dependencies),
                (SELECT count(*) FROM finished_jobs WHERE failed_attempts > 1),
                (SELECT sum(waiting) + sum(queued) + sum(running) + sum(suspended) FROM job_counts)::bigint
            """)
        try eventually("nothing is left over") {
            let rows = try connection.execute(left)
            return (0..<5).allSatisfy { rows.int64(0, $0) == 0 }
        }
        try eventually("the session's events are over") {
            try deliver()
            let types = try EventLog(url).events(of: "day").map(\.record.type)
            return types.contains(.jobAcknowledged) && types.contains(.sessionEventsFinished)
        }
        let log = try EventLog(url)
        #expect(log.isGapFree)
        let ends: Set<EventType> = [.jobSucceeded, .jobFailed, .jobCancelled]
        let ended = log.events.filter { ends.contains($0.record.type) }.compactMap(\.record.job)
        #expect(ended.count == jobs.count + 1 && Set(ended).isSuperset(of: jobs.map(\.id)))
        #expect(log.events.count { $0.record.type == .jobCreated } == jobs.count + 1)
        #expect(log.events.count { $0.record.type == .jobWillBegin } == 1)
        eventually("every slot is free") { node.slots.freeCount == node.slots.capacity }
    }
}
