import Curl
import FerryCore
import TestSupport
import TestThreads
import Testing

@Suite("Paused starts", .onOwnThread)
struct HeldStartTests {
    /// Fills a new database with the rows of another one, as a restore does.
    private func restore(_ database: TestDatabase) throws -> TestDatabase {
        let restored = try TestDatabase()
        let directory = try TemporaryDirectory.make("dump")
        defer { TemporaryDirectory.remove(directory) }
        let file = directory + "/dump.sql"
        for command in [
            ["pg_dump", "--dbname", database.url, "--file", file],
            ["psql", "-qX", "-v", "ON_ERROR_STOP=1", "--dbname", restored.url, "--file", file],
        ] {
            let run = try Program.run(command, environment: ["PATH": "/usr/bin:/bin"])
            try #require(run.status == 0, "\(run)")
        }
        return restored
    }

    @Test("a restored service that starts paused sends nothing until it is resumed")
    func restored() throws {
        let origin = try ScriptedOrigin.answering { _, _ in
            Array("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".utf8)
        }
        defer { origin.stop() }
        let receiver = try WebhookReceiver()
        defer { receiver.stop() }
        // It neither transfers nor delivers, so that all is due when the database is saved.
        let database = try TestDatabase()
        let key = ["FERRY_SECRET_KEY": "the-key-of-the-service-and-of-its-copy"]
        let first = try FerryProcess(
            ["FERRY_DATABASE_URL": database.url, "FERRY_ROLES": "api"].merging(key) { $1 })
        defer { first.remove() }
        let request = #""kind":"data","request":{"url":"\#(origin.url)/"}"#
        let due = try first.submit("{\(request)}")
        let cancelled = try first.submit(
            #"{\#(request),"webhook":{"url":"\#(receiver.url)","events":["job.cancelled"]}}"#)
        #expect(try first.call("POST", "/v1/jobs/\(cancelled)/cancel", "{}").status < 300)
        let isPending = becomes {
            let deliveries = try first.json("GET", "/v1/jobs/\(cancelled)/deliveries")["data"]?.array
            return deliveries?.first?["state"] == .string("pending")
        }
        #expect(isPending)
        let schedule = try first.json(
            "POST", "/v1/schedules", #"{"interval":1,"overlap":"allow","job":{\#(request)}}"#)
        let scheduled = "&schedule=\(schedule["id"]?.string ?? "")"
        #expect(becomes { try !first.allJobs(scheduled).isEmpty })
        first.kill9()

        let copy = try restore(database)
        let ferry = try FerryProcess(
            ["FERRY_DATABASE_URL": copy.url].merging(key) { $1 },
            launcher: ["/bin/sh", "-c", #"exec "$@" --paused"#, "sh"])
        defer { ferry.remove() }
        let scheduledCount = try ferry.allJobs(scheduled).count
        let status = try ferry.json("GET", "/v1/admin/status")
        #expect(status["paused"] == .bool(true) && status["held"] == .bool(true), "\(status)")
        // More than one interval of the schedule.
        let waiting = try ferry.json("GET", "/v1/jobs/\(due)", headers: ["Prefer": "wait=3"])
        #expect(waiting["waiting_reason"]?["code"] == .string("paused"), "\(waiting)")
        let delivery = try ferry.json("GET", "/v1/jobs/\(cancelled)/deliveries")["data"]?.array?.first
        #expect(delivery?["waiting_reason"]?["code"] == .string("paused"), "\(delivery ?? .null)")
        #expect(delivery?["tries"]?.array?.isEmpty == true)
        #expect(try ferry.allJobs(scheduled).count == scheduledCount)
        let later = try ferry.submit("{\(request)}")
        #expect(try ferry.json("GET", "/v1/jobs/\(later)")["state"] == .string("queued"))
        #expect(origin.requests.isEmpty && receiver.deliveries.wait(seconds: 0).isEmpty)

        let resumed = try Program.run(
            [Program.ferry, "admin", "resume"], environment: ["FERRY_URL": ferry.url, "FERRY_KEY": adminKey])
        #expect(resumed.status == 0, "\(resumed)")
        #expect(try ferry.finished(due)["state"] == .string("succeeded"))
        #expect(try ferry.finished(later)["state"] == .string("succeeded"))
        #expect(receiver.deliveries.wait().count == 1)
        #expect(becomes { try ferry.allJobs(scheduled).count > scheduledCount })
        #expect(try ferry.json("GET", "/v1/admin/status")["held"] == .bool(false))
    }
}
