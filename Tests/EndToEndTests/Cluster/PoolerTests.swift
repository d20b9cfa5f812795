import FerryCore
import Postgres
import TestSupport
import TestThreads
import Testing

/// Runs with a PgBouncer whose configuration has no setting made for Ferry.
@Suite("PgBouncer", .onOwnThread)
struct PoolerTests {
    private let database: TestDatabase
    private static let settings = Statement(
        "settings",
        """
        SELECT current_setting('statement_timeout'), current_setting('enable_seqscan'),
               current_setting('ferry.shard'), current_setting('jit')
        """)

    init() throws { database = try TestDatabase() }

    @Test("with pool_mode session, jobs run with and without NOTIFY", arguments: ["on", "off"])
    func sessions(notify: String) throws {
        let pooler = try PgBouncer(before: database, mode: "session")
        defer { pooler.stop() }
        let ferry = try FerryProcess(["FERRY_DATABASE_URL": pooler.url, "FERRY_NOTIFY": notify])
        defer { ferry.remove() }
        let origin = try RangeOrigin(patternBytes(1000, seed: 1))
        defer { origin.stop() }
        for _ in 0..<5 {
            let id = try ferry.submit(#"{"kind":"download","request":{"url":"\#(origin.url)"}}"#)
            #expect(try ferry.finished(id)["state"]?.string == "succeeded")
        }
        #expect(ferry.terminate() == 0)
        #expect(!ferry.log.contains("connection lost"), "\(ferry.log)")
    }

    @Test("a connection has its own settings even if the pooler reuses the server session of another client")
    func settings() throws {
        let pooler = try PgBouncer(before: database, mode: "session")
        defer { pooler.stop() }
        for shard in ["one", "two"] {
            var options = ConnectionOptions()
            options.pinsPlans = true
            options.settings = [.init("ferry.shard", shard)]
            var connection = try Connection(url: pooler.url, options: options)
            let found = try connection.execute(Self.settings)
            #expect(found.text(0, 0) == "30s" && found.text(0, 1) == "off")
            #expect(found.text(0, 2) == shard && found.text(0, 3) == "off")
        }
    }

    @Test(
        "with pool_mode transaction, a start fails with advice and leaves the database empty",
        arguments: ["serve", "check"])
    func transactions(command: String) throws {
        let pooler = try PgBouncer(before: database, mode: "transaction")
        defer { pooler.stop() }
        let directory = try TemporaryDirectory.make("pooled")
        defer { TemporaryDirectory.remove(directory) }
        let child = try Program.start(
            [Program.ferry, command],
            environment: [
                "PATH": "/usr/local/bin:/usr/bin:/bin", "FERRY_DATABASE_URL": pooler.url,
                "FERRY_DATA_DIR": directory, "FERRY_LISTEN": "127.0.0.1:\(try FreePort.find())",
                "FERRY_ADMIN_KEY": adminKey,
            ], log: directory + "/log")
        let hasEnded = becomes { Program.hasEnded(child) }
        if !hasEnded { ChildProcess.end(child) }
        let log = String(decoding: readFile(directory + "/log") ?? [], as: UTF8.self)
        #expect(hasEnded && log.contains("pool_mode = session"), "\(log)")
        var direct = try Connection(url: database.url)
        let tables = Statement("tables", "SELECT to_regclass('jobs') IS NULL")
        #expect(try direct.execute(tables).bool(0, 0))
    }
}
