import Curl
import FerryCore
import Postgres
import TestSupport
import TestThreads
import Testing

@Suite("Operations on many jobs", .onOwnThread)
struct BulkOperationTests {
    @Test("an operation continues after kill -9 in the middle of a step, and changes each job once")
    func killed() throws {
        let database = try TestDatabase()
        let ferry = try FerryProcess(["FERRY_DATABASE_URL": database.url])
        defer { ferry.remove() }
        let job = #"{"kind":"data","suspended":true,"request":{"url":"http://a.example/"}}"#
        let ids = try ferry.submitBatch(
            "{\"jobs\":[\(Array(repeating: job, count: 1_000).joined(separator: ","))]}")
        // The oldest job, which the last step changes, is locked.
        let oldest = try #require(ids.compactMap { JobID($0) }.min())
        var holder = try Connection(url: database.url)
        try holder.execute(
            script: "BEGIN; SELECT FROM jobs ORDER BY id LIMIT 1 FOR UPDATE")
        let started = try ferry.call("POST", "/v1/jobs/cancel", #"{"filter":{"state":"suspended"}}"#)
        try #require(started.status == 202)
        let path = try #require(started.header("location"))
        #expect(
            becomes {
                let operation = try ferry.json("GET", path)
                let isBlocked = try Self.isBlocked(database.url)
                return operation["changed"]?.integer == 800 && isBlocked
            })
        ferry.kill9()
        try ferry.start()
        #expect(try ferry.json("GET", path)["state"]?.string == "running")
        try holder.execute(script: "COMMIT")
        #expect(becomes { try ferry.json("GET", path)["state"]?.string != "running" })
        let ended = try ferry.json("GET", path)
        #expect(ended["state"]?.string == "succeeded" && ended["changed"]?.integer == 1_000, "\(ended)")
        #expect(ended["matched"]?.integer == 1_000 && ended["skipped"]?.integer == 0)
        #expect(try ferry.unfinishedCount() == 0)
        let last = try ferry.json("GET", "/v1/jobs/\(oldest)/events")
        #expect(last["data"]?.array?.count { $0["type"]?.string == "job.cancelled" } == 1)
    }

    /// Whether the thread of bulk operations waits for a lock.
    private static func isBlocked(_ url: String) throws -> Bool {
        var watcher = try Connection(url: url)
        let rows = try watcher.execute(
            Statement(
                "blocked",
                """
                SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid)
                WHERE NOT l.granted AND a.datname = current_database()
                    AND a.application_name = 'ferry bulk'
                """))
        return rows.int64(0, 0) > 0
    }

    @Test("the commands count, retry and cancel jobs by filter")
    func commands() throws {
        let ferry = try FerryProcess()
        defer { ferry.remove() }
        let origin = try ScriptedOrigin.answering { _, _ in
            Array("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".utf8)
        }
        defer { origin.stop() }
        let job = { (tag: String) in
            #"{"kind":"download","request":{"url":"\#(origin.url)/x"},"metadata":{"tag":"\#(tag)"}}"#
        }
        let ids = try ferry.submitBatch("{\"jobs\":[\(job("a")),\(job("a")),\(job("b"))]}")
        for id in ids { #expect(try ferry.finished(id)["state"]?.string == "failed") }
        let run = { (arguments: [String]) in
            try Program.run(
                [Program.ferry] + arguments, environment: ["FERRY_URL": ferry.url, "FERRY_KEY": adminKey])
        }
        #expect(try run(["retry", "--failed", "--tag", "tag=a", "--dry-run"]).output == "2\n")
        let retried = try run(["retry", "--failed", "--tag", "tag=a"])
        #expect(retried.status == 0, "\(retried)")
        #expect(
            retried.output.hasSuffix("succeeded\tmatched 2, changed 2, skipped 0, failed 0\n"), "\(retried)")
        let again = try run(["retry", "--failed", "--tag", "tag=a", "--host", "127.0.0.1"])
        #expect(again.output.contains("already_retried"), "\(again)")
        let new = try ferry.allJobs("&metadata.tag=a").filter { $0["retry_of"] != .null }
        let repeated = Set(new.compactMap { $0["retry_of"]?.string })
        #expect(new.count >= 2 && repeated.isSuperset(of: ids.prefix(2)))
        let cancelled = try run(["cancel", "--all"])
        #expect(cancelled.status == 0 && cancelled.output.contains("\tsucceeded\t"), "\(cancelled)")
        #expect(try run(["operations", "list"]).lines.count == 3)
        #expect(try run(["cancel"]).status == 2)
        #expect(try run(["cancel", ids[0], "--all"]).status == 2)
    }
}
