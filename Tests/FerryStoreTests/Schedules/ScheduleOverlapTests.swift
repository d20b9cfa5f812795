import FerryCore
import Logging
import Postgres
import Sys
import TestSupport
import TestThreads
import Testing

@testable import FerryStore

@Suite("A schedule that is due on two nodes", .onOwnThread)
struct ScheduleOverlapTests {
    let database: TestDatabase

    init() throws { database = try TestDatabase(template: template) }

    private struct Counts: Sendable, Equatable {
        let due: Int
        let submitted: Int
        let skipped: Int
    }

    private func connect() throws -> Connection {
        var options = ConnectionOptions()
        options.settings = [.init("ferry.shard", "test")]
        return try Connection(url: database.url, options: options)
    }

    /// Runs a schedule transaction like a node, in a transaction that the caller has begun.
    private func run(_ connection: inout Connection) throws -> Counts {
        let insertion = JobInsertion(
            StoreConfiguration(
                url: database.url, node: TestNode.identifiers.make(), nodeName: "test", version: "0",
                isWorker: true, slots: WorkerSlots(capacity: 0), clock: DatabaseClock(),
                logger: Logger(label: "test"), seal: .inverted, openSecrets: { _ in nil },
                sealSecrets: { _ in [] },
                hashCredentials: { _ in "0" }))
        try insertion.sessionLoader.readSessions(&connection)
        let run = ScheduleTransaction(
            insertion: insertion, countMax: 10, now: insertion.context.clock.now())
        var due: [ScheduleID] = []
        var admitted = AdmittedJobs()
        let outcome = try run.commit(&connection, dueIDs: &due, admitted: &admitted)
        return Counts(
            due: outcome.dueCount, submitted: outcome.submitted.jobCount, skipped: outcome.skippedCount)
    }

    private func commitRun() throws -> Counts {
        var connection = try connect()
        try connection.execute(script: "BEGIN")
        let counts = try run(&connection)
        try connection.execute(script: "COMMIT")
        return counts
    }

    /// Inserts a schedule of which two occurrences are due.
    private func makeSchedule(_ connection: inout Connection) throws {
        var parameters = Parameters()
        parameters.append(
            text: #"{"time_zone":"UTC","missed":"run_all","overlap":"skip","enabled":true,"interval":1.0}"#)
        parameters.append(text: newJob().storedSpec.json)
        let make = Statement(
            "make_schedule",
            """
            INSERT INTO schedules (id, tenant, created_at, updated_at, next_scheduled_at, next_run_at,
                watches_jobs, definition, specs, secrets, payloads)
            SELECT gen_random_uuid(), 'acme', now() - interval '1 hour', now(), now() - interval '5 s',
                now() - interval '5 s', true, $1::text, ARRAY[$2::text], ARRAY[NULL::bytea],
                ARRAY[NULL::bytea]
            """, parameters: 2)
        _ = try connection.execute(make, parameters)
    }

    @Test("the second node skips the occurrence, even if it began to read before the first committed")
    func skips() throws {
        var gate = try connect()
        try makeSchedule(&gate)
        // A statement that reads schedules waits in the middle while the gate is closed.
        try gate.execute(
            script: """
                ALTER TABLE schedules RENAME TO all_schedules;
                CREATE FUNCTION pass_gate() RETURNS boolean LANGUAGE sql VOLATILE AS
                    'SELECT pg_advisory_lock_shared(7); SELECT pg_advisory_unlock_shared(7)';
                CREATE VIEW schedules AS SELECT * FROM all_schedules WHERE pass_gate()
                """)
        var first = try connect()
        try first.execute(script: "BEGIN")
        #expect(try run(&first) == Counts(due: 1, submitted: 1, skipped: 0))
        try gate.execute(script: "SELECT pg_advisory_lock(7)")
        let done = Mailbox<Counts?>()
        let second = Thread(name: "second") { done.send(try? commitRun()) }
        let waiting = Statement(
            "waiting",
            """
            SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database
            WHERE d.datname = current_database() AND l.locktype = 'advisory' AND NOT l.granted
            """)
        try eventually("the second node has begun to read") { try gate.execute(waiting).int64(0, 0) == 1 }
        try first.execute(script: "COMMIT")
        try gate.execute(script: "SELECT pg_advisory_unlock(7)")
        let counts = try #require(done.wait(milliseconds: 60_000).first)
        second.join()
        #expect(counts == Counts(due: 1, submitted: 0, skipped: 1))
        let jobs = Statement("jobs_made", "SELECT count(*) FROM jobs")
        #expect(try gate.execute(jobs).int64(0, 0) == 1)
    }
}
