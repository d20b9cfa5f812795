import Curl
import FerryCore
import Glibc
import TestSupport
import TestThreads
import Testing

@Suite("Log of a crash", .onOwnThread)
struct CrashLogTests {
    @Test(
        "a process that a signal ends leaves one line in its log",
        arguments: [(SIGSEGV, "SIGSEGV"), (SIGTRAP, "SIGTRAP"), (SIGABRT, "SIGABRT")])
    func crash(_ number: Int32, _ name: String) throws {
        let database = try TestDatabase()
        let ferry = try FerryProcess(["FERRY_DATABASE_URL": database.url, "FERRY_LOG_FORMAT": "json"])
        defer { ferry.remove() }
        ferry.send(number)
        #expect(ferry.wait() != 0)
        let lines = ferry.log.split(separator: "\n").compactMap { try? JSON.parse(Array($0.utf8)) }
            .filter { $0["signal"] != nil }
        let line = try #require(lines.first)
        #expect(lines.count == 1 && line["signal"]?.string == name && line["level"]?.string == "critical")
        #expect(line["message"]?.string == "The process ends after a crash.")
    }

    @Test("the line is text if the log is text, and the next start works")
    func text() throws {
        let database = try TestDatabase()
        let ferry = try FerryProcess(["FERRY_DATABASE_URL": database.url, "FERRY_LOG_FORMAT": "text"])
        defer { ferry.remove() }
        ferry.send(SIGSEGV)
        #expect(ferry.wait() != 0)
        #expect(ferry.log.contains("critical ferry: The process ends after a crash. signal=SIGSEGV\n"))
        try ferry.start()
        #expect(try ferry.call("GET", "/v1/jobs").status == 200)
    }
}
