import FerryCore
import FerryStore
import Postgres
import TestSupport
import Testing

@Suite("What the database cannot do just now")
struct TroubleTests {
    let database: TestDatabase
    let node: TestNode

    init() throws {
        database = try TestDatabase(template: template)
        node = try TestNode(database.url, slots: 0)
    }

    /// The first `count` rows of `jobs` that anybody would `event` end with this error.
    private func fail(_ event: String, _ count: Int, _ state: String) throws {
        var connection = try Connection(url: database.url)
        try connection.execute(
            script: """
                DROP TRIGGER IF EXISTS trouble ON jobs;
                DROP SEQUENCE IF EXISTS tries;
                CREATE SEQUENCE tries;
                CREATE OR REPLACE FUNCTION trouble() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                    IF nextval('tries') <= \(count) THEN
                        RAISE EXCEPTION 'trouble' USING ERRCODE = '\(state)';
                    END IF;
                    RETURN NULL;
                END $$;
                CREATE TRIGGER trouble AFTER \(event) ON jobs FOR EACH ROW EXECUTE FUNCTION trouble();
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

    @Test("one that loses every time is refused as unavailable, and nothing of it stays")
    func bounded() throws {
        defer { node.store.stop() }
        try fail("INSERT", 1_000, "40P01")
        #expect(isUnavailable(node.submit([newJob()])))
        #expect(try countedStates(database.url) == [:])
    }

    @Test(
        "what the database has no room or no time for is unavailable, and not our mistake",
        arguments: ["53100", "53200", "57014", "55P03"])
    func shortage(_ state: String) throws {
        defer { node.store.stop() }
        try fail("INSERT", 1, state)
        #expect(isUnavailable(node.submit([newJob(), newJob()])))
        let id = try node.submit(newJob()).id
        try fail("UPDATE", 1, state)
        #expect(isUnavailable(wait { node.store.control.suspend(id, tenant: "acme", reply: $0) }))
        #expect(try node.job(id).get().record.state == .queued)
    }

    @Test("a command that loses a deadlock is sent again before it is answered")
    func command() throws {
        defer { node.store.stop() }
        let id = try node.submit(newJob()).id
        try fail("UPDATE", 3, "40P01")
        let suspended = try wait { node.store.control.suspend(id, tenant: "acme", reply: $0) }.get()
        #expect(suspended.state == .suspended)
        try fail("UPDATE", 1_000, "40P01")
        #expect(isUnavailable(wait { node.store.control.resume(id, tenant: "acme", reply: $0) }))
    }
}
