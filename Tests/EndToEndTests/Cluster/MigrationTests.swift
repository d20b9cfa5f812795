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
        var dump = try Connection(url: database.url)
        try dump.execute(script: TestDatabase.dumpBeforeAttempts)
        try dump.execute(script: "BEGIN; LOCK TABLE jobs IN ACCESS SHARE MODE")
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
        dump.close()
        #expect(becomes(seconds: 120) { try ferry.call("GET", "/readyz").status == 200 })
    }

    /// Number of logged announcements of another try.
    private func tries(_ log: String) -> Int {
        String(decoding: readFile(log) ?? [], as: UTF8.self).matches(of: /Ferry tries again/).count
    }
}
