import Curl
import FerryCore
import Glibc
import TestSupport
import TestThreads
import Testing

@Suite("Schedules", .onOwnThread)
struct ScheduleTests {
    private let ferry: FerryProcess

    init() throws { ferry = try FerryProcess.shared.get().ferry }

    private func origin() throws -> ScriptedOrigin {
        try ScriptedOrigin.answering { request, _ in
            Array("HTTP/1.1 200 OK\r\nContent-Length: \(request.path.utf8.count)\r\n\r\n\(request.path)".utf8)
        }
    }

    private func create(_ body: String, _ ferry: FerryProcess? = nil) throws -> JSON {
        let response = try (ferry ?? self.ferry).call("POST", "/v1/schedules", body)
        try #require(response.status == 201, "\(response.text)")
        return try response.json
    }

    private func jobs(_ schedule: JSON, _ ferry: FerryProcess? = nil) throws -> [JSON] {
        try (ferry ?? self.ferry).allJobs("&schedule=\(schedule["id"]?.string ?? "")")
    }

    @Test("an interval submits jobs, each with its time in its paths, until the schedule is paused")
    func interval() throws {
        let origin = try origin()
        defer { origin.stop() }
        let created = try create(
            #"""
            {"interval":1,"time_zone":"Australia/Lord_Howe","job":{"kind":"download",
             "request":{"url":"\#(origin.url)/{scheduled_at:unix}","headers":{"Cookie":"secret=1"}},
             "destination":{"path":"schedules/interval/{scheduled_at:unix}"}}}
            """#)
        let path = "/v1/schedules/\(created["id"]?.string ?? "")"
        #expect(becomes { try jobs(created).count { $0["state"]?.string == "succeeded" } >= 2 })
        let paused = try ferry.json("POST", path + "/pause", "{}")
        #expect(paused["enabled"]?.bool == false && paused["next_run_at"]?.isNull == true)
        // A job that was being submitted during the pause may still be added.
        #expect(becomes { try jobs(created).allSatisfy { $0["state"]?.string == "succeeded" } })
        let all = try jobs(created)
        for job in all {
            #expect(job["schedule_id"] == created["id"], "\(job)")
            let at = try #require(job["scheduled_at"]?.string.flatMap { Timestamp(rfc3339: $0) })
            let name = "\(at.microseconds / 1_000_000)"
            #expect(readFile(ferry.files + "/schedules/interval/\(name)") == Array("/\(name)".utf8))
        }
        #expect(Set(all.map { $0["scheduled_at"]?.string }).count == all.count)
        #expect(
            origin.requests.allSatisfy { $0.header("cookie") == "secret=1" },
            "secret header fields are decrypted")
        let shown = try ferry.json("GET", path)
        #expect(shown["counts"]?["runs"]?.integer == Int64(all.count))
        #expect(shown["last_job"] == all.first?["id"])
        #expect(try ferry.call("DELETE", path).status == 204)
        #expect(try jobs(created).count == all.count)
    }

    @Test("a manual run of a paused schedule is replayed with the same idempotency key")
    func run() throws {
        let origin = try origin()
        defer { origin.stop() }
        let created = try create(
            #"""
            {"cron":"0 0 29 2 *","time_zone":"Europe/Berlin","enabled":false,
             "job":{"kind":"data","request":{"url":"\#(origin.url)/hand"}}}
            """#)
        let path = "/v1/schedules/\(created["id"]?.string ?? "")/run"
        let first = try ferry.call("POST", path, "{}", headers: ["Idempotency-Key": "run-by-hand"])
        #expect(first.status == 201)
        let id = try #require(try first.json["id"]?.string)
        #expect(try ferry.finished(id)["result"]?["body"]?.string == "/hand")
        let again = try ferry.call("POST", path, "{}", headers: ["Idempotency-Key": "run-by-hand"])
        #expect(try again.status == 201 && again.json["id"]?.string == id)
        #expect(again.header("idempotency-replayed") == "true")
        #expect(origin.requests.count == 1)
        let retried = try ferry.call("POST", "/v1/jobs/\(id)/retry", "{}")
        #expect(try retried.json["schedule_id"]?.isNull == true, "the schedule has not submitted the retry")
    }

    @Test("a run of several jobs closes its group; a job sends the file of an earlier one of the same run")
    func list() throws {
        let origin = try origin()
        defer { origin.stop() }
        let created = try create(
            #"""
            {"cron":"0 0 29 2 *","group":"run-{scheduled_at:unix}","close_group":true,"jobs":[
              {"kind":"data","request":{"url":"\#(origin.url)/{scheduled_at:year}"}},
              {"kind":"upload","request":{"url":"\#(origin.url)/to"},"source":{"job":"#/jobs/0"}}]}
            """#)
        let run = try ferry.call("POST", "/v1/schedules/\(created["id"]?.string ?? "")/run", "{}")
        let ids = try run.json["data"]?.array?.compactMap { $0["id"]?.string } ?? []
        #expect(run.status == 201 && ids.count == 2)
        let sent = try ferry.finished(ids[1])
        #expect(sent["state"]?.string == "succeeded" && sent["source"]?["job"]?.string == ids[0])
        let group = try #require(sent["group"]?.string)
        #expect(becomes { try ferry.json("GET", "/v1/job_groups/\(group)")["state"]?.string == "finished" })
        let shown = try ferry.json("GET", "/v1/schedules/\(created["id"]?.string ?? "")")
        #expect(shown["jobs"]?.array?[1]["source"]?["job"]?.string == "#/jobs/0")
    }

    @Test("creating a schedule is idempotent by key, and replacing it requires its ETag")
    func changes() throws {
        let body = #"{"cron":"@daily","job":{"kind":"data","request":{"url":"http://127.0.0.1:1/"}}}"#
        let first = try ferry.call("POST", "/v1/schedules", body, headers: ["Idempotency-Key": "sch-1"])
        let again = try ferry.call("POST", "/v1/schedules", body, headers: ["Idempotency-Key": "sch-1"])
        #expect(try again.status == 201 && again.json["id"] == first.json["id"])
        #expect(again.header("idempotency-replayed") == "true")
        let path = try #require(first.header("location"))
        let next = try #require(try first.json["next_run_at"]?.string.flatMap { Timestamp(rfc3339: $0) })
        #expect(next.microseconds % 86_400_000_000 == 0)
        let weekly = body.replacing("@daily", with: "0 0 * * mon")
        #expect(try ferry.call("PUT", path, weekly, headers: ["If-Match": "\"r7\""]).status == 412)
        let replaced = try ferry.call("PUT", path, weekly, headers: ["If-Match": "\"r1\""])
        #expect(try replaced.status == 200 && replaced.json["cron"]?.string == "0 0 * * mon")
        let monday = try #require(try replaced.json["next_run_at"]?.string.flatMap { Timestamp(rfc3339: $0) })
        #expect((monday.microseconds / 86_400_000_000 + 4) % 7 == 1)
        #expect(try ferry.call("DELETE", path).status == 204)
        #expect(try ferry.call("GET", path).status == 404)
    }

    @Test("each occurrence has exactly one job, also after three kill -9")
    func killed() throws {
        let database = try TestDatabase()
        let ferry = try FerryProcess(["FERRY_DATABASE_URL": database.url])
        defer { ferry.remove() }
        let origin = try origin()
        defer { origin.stop() }
        let schedules = try (0..<20).map { number in
            try create(
                #"{"interval":1,"missed":"run_all","job":{"kind":"data","#
                    + #""request":{"url":"\#(origin.url)/\#(number)"}}}"#, ferry)
        }
        for _ in 0..<3 {
            let before = origin.requests.count
            #expect(becomes { origin.requests.count > before + 25 })
            ferry.kill9()
            try ferry.start()
        }
        for schedule in schedules {
            _ = try ferry.call("POST", "/v1/schedules/\(schedule["id"]?.string ?? "")/pause", "{}")
        }
        #expect(becomes(seconds: 240) { try ferry.unfinishedCount() == 0 })
        for schedule in schedules {
            let times = try jobs(schedule, ferry).compactMap { job in
                job["scheduled_at"]?.string.flatMap { Timestamp(rfc3339: $0) }
            }.sorted()
            #expect(times.count >= 3)
            for (earlier, later) in zip(times, times.dropFirst()) {
                #expect(later - earlier == 1, "an occurrence is missing or doubled")
            }
        }
    }

    @Test("a schedule's jobs have the session's priority; after invalidation, occurrences are skipped")
    func sessions() throws {
        let origin = try origin()
        defer { origin.stop() }
        #expect(try ferry.call("PUT", "/v1/sessions/schedules-s", #"{"priority":0.9}"#).status < 300)
        let created = try create(
            #"""
            {"interval":1,"job":{"kind":"data","session":"schedules-s",
             "request":{"url":"\#(origin.url)/s"}}}
            """#)
        #expect(created["job"]?["schedule"]?["priority"]?.double == 0.9)
        #expect(becomes { try jobs(created).contains { $0["schedule"]?["priority"]?.double == 0.9 } })
        let path = "/v1/schedules/\(created["id"]?.string ?? "")"
        let invalidate = try ferry.call(
            "POST", "/v1/sessions/schedules-s/invalidate", #"{"mode":"finish"}"#)
        #expect(invalidate.status == 200, "\(invalidate.text)")
        let count = try jobs(created).count
        #expect(becomes { (try ferry.json("GET", path)["counts"]?["skipped"]?.integer ?? 0) >= 2 })
        #expect(try jobs(created).count == count)
        let refused = try ferry.call("POST", path + "/run", "{}")
        #expect(try refused.status == 409 && refused.json["code"]?.string == "session_invalidated")
        #expect(try ferry.call("DELETE", path).status == 204)
    }

    @Test("ferry schedules creates, lists, shows, runs, pauses, resumes and deletes a schedule")
    func commands() throws {
        let origin = try origin()
        defer { origin.stop() }
        let text = #"{"cron":"@monthly","job":{"kind":"data","request":{"url":"\#(origin.url)/cli"}}}"#
        let run = { (arguments: [String], input: String) in
            try Program.run(
                [Program.ferry, "schedules"] + arguments,
                environment: ["FERRY_URL": ferry.url, "FERRY_KEY": adminKey], input: input)
        }
        let output = try run(["create", "-"], text)
        let id = try #require(output.lines.first, "\(output)")
        #expect(output.status == 0 && id.hasPrefix("sch_"))
        #expect(try run(["list"], "").output.contains(id))
        #expect(try run(["show", id], "").output.contains("@monthly"))
        let job = try #require(try run(["run", id], "").lines.first)
        #expect(try ferry.finished(job)["state"]?.string == "succeeded")
        #expect(try run(["pause", id], "").status == 0 && run(["resume", id], "").status == 0)
        #expect(try run(["delete", id], "").status == 0)
        #expect(try run(["show", id], "").status == 1)
    }
}
