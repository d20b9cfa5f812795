import Curl
import Glibc
import Postgres
import TestSupport
import TestThreads
import Testing

@Suite("Migrations at start", .onOwnThread)
struct MigrationTests {
    @Test("a start logs that it waits for locked tables, exits with 0 on SIGTERM, and migrates once it can")
    func lockedTables() throws {
        let database = try TestDatabase()
        let ferry = try FerryProcess(["FERRY_DATABASE_URL": database.url])
        defer { ferry.remove() }
        #expect(ferry.terminate() == 0)
        // As if no migration had been applied, and another session held a lock.
        var holder = try Connection(url: database.url)
        try holder.execute(
            script: """
                DROP SCHEMA public CASCADE; CREATE SCHEMA public;
                CREATE TABLE schema_migrations (
                    version integer PRIMARY KEY, name text NOT NULL, applied_at timestamptz DEFAULT now());
                SET idle_in_transaction_session_timeout = 0;
                BEGIN; LOCK TABLE schema_migrations
                """)
        let environment = ferry.environment
        let logs = ["first", "second"].map { "\(ferry.directory)/\($0)-log" }
        let first = try Program.start([Program.ferry, "serve"], environment: environment, log: logs[0])
        #expect(becomes(seconds: 120) { tries(logs[0]) >= 2 })
        kill(first, SIGTERM)
        #expect(Program.wait(first) == 0)
        let second = try Program.start([Program.ferry, "serve"], environment: environment, log: logs[1])
        defer {
            kill(second, SIGKILL)
            _ = Program.wait(second)
        }
        #expect(becomes(seconds: 120) { tries(logs[1]) >= 1 })
        holder.close()
        #expect(becomes(seconds: 120) { try ferry.call("GET", "/readyz").status == 200 })
    }

    @Test("check, migrate and serve refuse a database of an unreleased build, and do not change it")
    func unreleased() throws {
        let database = try TestDatabase()
        let directory = try TemporaryDirectory.make("unreleased")
        defer { TemporaryDirectory.remove(directory) }
        var connection = try Connection(url: database.url)
        try connection.execute(
            script: """
                CREATE TABLE schema_migrations (version integer, name text);
                INSERT INTO schema_migrations VALUES (1, 'jobs'), (2, 'deliveries')
                """)
        for command in ["check", "migrate", "serve"] {
            let result = try Program.run(
                [Program.ferry, command],
                environment: ["FERRY_DATABASE_URL": database.url, "FERRY_DATA_DIR": directory])
            #expect(result.status == 1, "\(command): \(result)")
            let text = result.output + result.messages
            #expect(text.contains("unreleased build") && text.contains("new, empty database"), "\(text)")
        }
        let state = try connection.execute(
            Statement(
                "state",
                """
                SELECT (SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace),
                    (SELECT count(*) FROM schema_migrations)
                """))
        #expect(state.int64(0, 0) == 1 && state.int64(0, 1) == 2)
    }

    /// Number of logged announcements of another try.
    private func tries(_ log: String) -> Int {
        String(decoding: readFile(log) ?? [], as: UTF8.self).matches(of: /Ferry tries again/).count
    }
}
