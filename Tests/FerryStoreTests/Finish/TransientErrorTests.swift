import FerryCore
import FerryStore
import Postgres
import Sys
import TestSupport
import TestThreads
import Testing

@Suite("Temporary errors of the database", .onOwnThread)
struct TransientErrorTests {
    let database: TestDatabase
    let node: TestNode

    init() throws {
        database = try TestDatabase(template: template)
        node = try TestNode(database.url, slots: 0)
    }

    /// The first `count` rows of a table that anybody would `event` end with this error.
    private func fail(_ event: String, on table: String = "jobs", _ count: Int, _ state: String) throws {
        var connection = try Connection(url: database.url)
        try connection.execute(
            script: """
                DROP TRIGGER IF EXISTS trouble ON \(table);
                DROP SEQUENCE IF EXISTS tries;
                CREATE SEQUENCE tries;
                CREATE OR REPLACE FUNCTION trouble() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                    IF nextval('tries') <= \(count) THEN
                        RAISE EXCEPTION 'trouble' USING ERRCODE = '\(state)';
                    END IF;
                    RETURN NULL;
                END $$;
                CREATE TRIGGER trouble AFTER \(event) ON \(table) FOR EACH ROW EXECUTE FUNCTION trouble();
                """)
    }

    private func isUnavailable<Value>(_ result: Result<Value, StoreError>) -> Bool {
        if case .failure(.unavailable) = result { true } else { false }
    }

    @Test("a submission that loses a deadlock is sent again", arguments: ["40P01", "40001"])
    func resent(_ state: String) throws {
        defer { node.store.stop() }
        try fail("INSERT", 3, state)
        let accepted = try node.submit([newJob(), newJob()], key: key("a")).get()
        #expect(!accepted.isReplay)
        #expect(try countedStates(database.url) == ["queued": 2])
    }

    @Test("a submission that loses every deadlock is refused as unavailable, and leaves no rows")
    func bounded() throws {
        defer { node.store.stop() }
        try fail("INSERT", 1_000, "40P01")
        #expect(isUnavailable(node.submit([newJob()])))
        #expect(try countedStates(database.url) == [:])
    }

    @Test(
        "a submission that finds the database full or slow is refused as unavailable",
        arguments: ["53100", "53200", "57014", "55P03"])
    func shortage(_ state: String) throws {
        defer { node.store.stop() }
        try fail("INSERT", 1, state)
        #expect(isUnavailable(node.submit([newJob(), newJob()])))
        let id = try node.submit(newJob()).id
        try fail("UPDATE", 1, state)
        #expect(isUnavailable(wait { node.store.jobCommands.suspend(id, tenant: "acme", reply: $0) }))
        #expect(try node.job(id).get().record.state == .queued)
    }

    @Test("a command that loses a deadlock is sent again before the reply")
    func command() throws {
        defer { node.store.stop() }
        let id = try node.submit(newJob()).id
        try fail("UPDATE", 3, "40P01")
        let suspended = try wait { node.store.jobCommands.suspend(id, tenant: "acme", reply: $0) }.get()
        #expect(suspended.state == .suspended)
        try fail("UPDATE", 1_000, "40P01")
        #expect(isUnavailable(wait { node.store.jobCommands.resume(id, tenant: "acme", reply: $0) }))
    }

    private static let shortages = ["53100", "57014"]

    @Test("a full or slow database does not disable a schedule", arguments: shortages)
    func schedules(_ state: String) throws {
        defer { node.store.stop() }
        let json =
            #"{"time_zone":"UTC","missed":"run_once","overlap":"allow","enabled":true,"interval":86400}"#
        let schedule = NewSchedule(
            id: TestNode.identifiers.make(), tenant: "acme",
            spec: try ScheduleSpec(storedJSON: Array(json.utf8)),
            jobs: ScheduleJobs(newJob().request))
        _ = try wait { reply in
            node.store.scheduleCommands.createSchedule(schedule, nil) { reply($0.map(\.record)) }
        }.get()
        try fail("INSERT", 3, state)
        var connection = try Connection(url: database.url)
        try connection.execute(
            script: "UPDATE schedules SET next_scheduled_at = now(), next_run_at = now()")
        node.store.schedules.wake()
        try eventually("its job is there") { try countedStates(database.url) == ["queued": 1] }
    }

    @Test("an event that finds the database full is written later", arguments: shortages)
    func events(_ state: String) throws {
        defer { node.store.stop() }
        let worker = try TestNode(database.url)
        defer { worker.store.stop() }
        _ = try worker.submit(newJob(session: "told"))
        let attempt = try worker.attempt()
        try fail("INSERT", on: "event_inbox", 2, state)
        worker.store.dispatcher.resumed(attempt, at: 7)
        try eventually("it is told") {
            try EventLog(database.url).events(of: "told").contains { $0.record.type == .jobResumedAtOffset }
        }
    }

    @Test("tries of deliveries are kept until the database has room", arguments: shortages)
    func deliveries(_ state: String) throws {
        defer { node.store.stop() }
        var connection = try Connection(url: database.url)
        try addDeliveries(3, database.url)
        let found = Mailbox<ClaimedDeliveries>()
        node.store.deliveries.claim(DeliveryDemand(total: 9, other: 9), leaseSeconds: 600) { found.send($0) }
        let due = try #require(found.wait(milliseconds: 60_000).first).due
        #expect(due.count == 3)
        // Of the first round trip none, and of those that follow none at first.
        try fail("INSERT", on: "delivery_tries", 2, state)
        node.store.deliveries.record(due.map { tried($0, .accepted, status: 204) })
        let accepted = Statement(
            "accepted",
            "SELECT count(*) FROM deliveries d WHERE state = 'accepted' AND EXISTS ("
                + "SELECT FROM delivery_tries WHERE delivery = d.id)")
        try eventually("they are accepted") { try connection.execute(accepted).int64(0, 0) == 3 }
    }
}
