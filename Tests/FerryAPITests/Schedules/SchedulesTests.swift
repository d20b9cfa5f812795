import FerryCore
import Synchronization
import Testing

@testable import FerryAPI

@Suite("Schedules")
struct SchedulesTests {
    private let body = #"""
        {"cron":"0 6 * * *","job":{"kind":"download","request":{"url":"https://a.example/{scheduled_at:date}",
         "headers":{"Authorization":"Bearer very-secret"}},"destination":{"path":"d/{scheduled_at:date}"}}}
        """#

    private func create(_ fixture: Fixture) throws -> (response: ReceivedResponse, path: String) {
        let response = try fixture.send("POST", "/v1/schedules", body, key: fixture.clientKey)
        try #require(response.status == 201, "\(response.json)")
        return (response, try #require(response.header("Location")))
    }

    @Test("a schedule is shown as it was accepted, with its secrets as set")
    func create() throws {
        let fixture = Fixture()
        let (response, path) = try create(fixture)
        let shown = response.json
        #expect(path == "/v1/schedules/\(shown["id"]?.string ?? "")" && response.header("ETag") == "\"r1\"")
        #expect(shown["cron"]?.string == "0 6 * * *" && shown["time_zone"]?.string == "UTC")
        let request = shown["job"]?["request"]
        #expect(request?["url"]?.string == "https://a.example/{scheduled_at:date}")
        #expect(request?["headers"]?["Authorization"]?["set"]?.bool == true)
        #expect(shown["job"]?["destination"]?["path"]?.string == "d/{scheduled_at:date}")
        let job = try #require(fixture.store.state.withLock { $0.scheduledJobs.values.first }).requests[0]
        #expect(job.secrets.headers.map(\.name) == ["Authorization"])
        #expect(!String(decoding: job.spec.encodeStored(), as: UTF8.self).contains("very-secret"))
        let read = try fixture.send("GET", path, key: fixture.viewerKey)
        #expect(read.status == 200 && read.json == shown)
        let list = try fixture.send("GET", "/v1/schedules?limit=1", key: fixture.viewerKey)
        #expect(list.json["data"]?.array == [shown] && list.json["next_cursor"]?.isNull == true)
    }

    @Test("invalid fields are 422 with a pointer each, and nothing is stored")
    func wrong() throws {
        let fixture = Fixture()
        let response = try fixture.send(
            "POST", "/v1/schedules",
            #"{"cron":"61 * * * *","colour":1,"job":{"kind":"data","request":{"url":"http://10.0.0.1/"}}}"#)
        #expect(response.status == 422)
        #expect(
            response.json["errors"]?.array?.compactMap { $0["pointer"]?.string }
                == ["#/cron", "#/colour", "#/job/request/url"])
        #expect(fixture.store.state.withLock { $0.schedules.isEmpty })
    }

    @Test("a schedule is replaced, paused, resumed and deleted with its entity tag in If-Match")
    func changes() throws {
        let fixture = Fixture()
        let (_, path) = try create(fixture)
        let stale = [(name: "If-Match", value: #""r8", "r9""#)]
        for (method, target, sent) in [
            ("PUT", path, body), ("POST", path + "/pause", "{}"), ("POST", path + "/resume", "{}"),
        ] {
            #expect(try fixture.send(method, target, sent, stale).status == 412)
        }
        #expect(try fixture.send("DELETE", path, nil, stale).status == 412)
        let paused = try fixture.send(
            "POST", path + "/pause", "{}", [(name: "If-Match", value: #""r9", "r1""#)])
        #expect(paused.json["enabled"]?.bool == false && paused.header("ETag") == "\"r2\"")
        #expect(try fixture.send("POST", path + "/resume", "{}").json["enabled"]?.bool == true)
        let other = #"{"interval":60,"job":{"kind":"data","request":{"url":"https://b.example/"}}}"#
        let replaced = try fixture.send("PUT", path, other, [(name: "If-Match", value: "\"r3\"")])
        #expect(replaced.status == 200 && replaced.json["interval"]?.double == 60)
        #expect(replaced.json["cron"]?.isNull == true)
        #expect(replaced.json["job"]?["request"]?["url"]?.string == "https://b.example/")
        #expect(try fixture.send("DELETE", path, [("If-Match", #""r3", "r4""#)]).status == 204)
        #expect(try fixture.send("GET", path).status == 404)
    }

    @Test("a schedule whose time zone is unknown can be paused, but not resumed")
    func unknownZone() throws {
        let fixture = Fixture()
        let (_, path) = try create(fixture)
        fixture.store.state.withLock { state in
            for id in state.schedules.keys { state.schedules[id]?.spec.timeZone = "Atlantis/Capital" }
        }
        #expect(try fixture.send("POST", path + "/pause", "{}").status == 200)
        let refused = try fixture.send("POST", path + "/resume", "{}")
        #expect(refused.status == 422)
        #expect(refused.json["errors"]?.array?.compactMap { $0["pointer"]?.string } == ["#/time_zone"])
        #expect(try fixture.send("GET", path).json["enabled"]?.bool == false)
        let other = #"{"interval":60,"job":{"kind":"data","request":{"url":"https://b.example/"}}}"#
        #expect(try fixture.send("PUT", path, other).json["enabled"]?.bool == true)
    }

    @Test("viewers cannot change schedules, and other tenants do not see them")
    func access() throws {
        let fixture = Fixture()
        let (_, path) = try create(fixture)
        #expect(try fixture.send("POST", "/v1/schedules", body, key: fixture.viewerKey).status == 403)
        #expect(try fixture.send("POST", path + "/run", "{}", key: fixture.viewerKey).status == 403)
        for (method, target, sent) in [
            ("GET", path, nil), ("PUT", path, body), ("DELETE", path, nil), ("POST", path + "/run", "{}"),
        ] as [(String, String, String?)] {
            #expect(try fixture.send(method, target, sent, key: fixture.strangerKey).status == 404)
        }
        #expect(try fixture.send("GET", "/v1/schedules/job_x").status == 404)
        let list = try fixture.send("GET", "/v1/schedules", key: fixture.strangerKey)
        #expect(list.json["data"]?.array?.isEmpty == true)
    }

    @Test("running a schedule responds with the job")
    func run() throws {
        let fixture = Fixture()
        let (_, path) = try create(fixture)
        let response = try fixture.send("POST", path + "/run", "{}", key: fixture.clientKey)
        #expect(response.status == 201)
        #expect(response.header("Location") == "/v1/jobs/\(response.json["id"]?.string ?? "")")
        #expect(try fixture.send("POST", path + "/run", #"{"x":1}"#).status == 422)
    }

    private func item(_ path: String, _ members: String = "") -> String {
        #"{"kind":"download","request":{"url":"https://a.example/"},"destination":{"path":"\#(path)"}\#(members)}"#
    }

    @Test("a schedule with jobs shows them and the group in place of job, and its run responds with all jobs")
    func list() throws {
        let fixture = Fixture()
        let dependent = item("b", ##","schedule":{"depends_on":["#/jobs/0"]}"##)
        let body =
            #"{"cron":"@daily","group":"night","close_group":true,"jobs":[\#(item("a")),\#(dependent)]}"#
        let created = try fixture.send("POST", "/v1/schedules", body)
        #expect(created.status == 201, "\(created.json)")
        let path = try #require(created.header("Location"))
        let jobs = try #require(created.json["jobs"]?.array)
        #expect(jobs.map { $0["destination"]?["path"]?.string } == ["a", "b"])
        #expect(jobs.map { $0["group"]?.string } == ["night", "night"])
        #expect(jobs[1]["schedule"]?["depends_on"]?.array?.map(\.string) == ["#/jobs/0"])
        #expect(created.json["group"]?.string == "night" && created.json["close_group"]?.bool == true)
        #expect(created.json["job"] == nil)
        #expect(try fixture.send("GET", path).json == created.json)
        let run = try fixture.send("POST", path + "/run", "{}")
        #expect(run.status == 201 && run.header("Location") == nil)
        #expect(run.json["data"]?.array?.map { $0["created"]?.bool } == [true, true])
        let single = try fixture.send("PUT", path, self.body)
        #expect(single.json["job"]?.isNull == false && single.json["jobs"] == nil)
        #expect(single.json["group"] == nil && single.json["close_group"] == nil)
        #expect(try fixture.send("PUT", path, body).json["jobs"]?.array == jobs)
    }

    @Test("errors of a schedule's jobs are 422 with a pointer each; two jobs must not replace one file")
    func wrongJobs() throws {
        let fixture = Fixture()
        let pointers = { (jobs: [String]) in
            let body = #"{"cron":"@daily","jobs":[\#(jobs.joined(separator: ","))]}"#
            let response = try fixture.send("POST", "/v1/schedules", body)
            #expect(response.status == 422)
            return response.json["errors"]?.array?.compactMap { $0["pointer"]?.string }
        }
        let blocked = #"{"kind":"data","request":{"url":"http://10.0.0.1/"}}"#
        #expect(try pointers([item("a"), blocked]) == ["#/jobs/1/request/url"])
        let replacing = #"{"path":"d/{scheduled_at:date}","if_exists":"replace"}"#
        let same = replacing.replacing(
            ":date}", with: ":year}-{scheduled_at:month}-{scheduled_at:day}")
        let files = [replacing, same].map {
            #"{"kind":"download","request":{"url":"https://a.example/"},"destination":\#($0)}"#
        }
        #expect(
            try pointers([item("a")] + files)
                == ["#/jobs/1/destination/path", "#/jobs/2/destination/path"])
        let unknown = JobID(high: 5, low: 5)
        let upload =
            #"{"kind":"upload","request":{"url":"https://a.example/"},"source":{"job":"\#(unknown)"}}"#
        #expect(try pointers([item("a"), upload]) == ["#/jobs/1/source/job"])
        #expect(fixture.store.state.withLock { $0.schedules.isEmpty })
    }

    @Test("jobs are filtered by schedule")
    func filter() throws {
        let fixture = Fixture()
        let id = ScheduleID(high: 1, low: 2)
        #expect(try fixture.send("GET", "/v1/jobs?schedule=\(id)").status == 200)
        #expect(fixture.store.state.withLock { $0.queries.last?.schedule } == id)
        #expect(try fixture.send("GET", "/v1/jobs?schedule=sch_1").status == 400)
    }

    @Test("admins replace the windows as a whole, and the response shows the open ones")
    func windows() throws {
        let fixture = Fixture()
        let path = "/v1/admin/windows"
        #expect(try fixture.send("GET", path).json["windows"]?.array?.isEmpty == true)
        #expect(try fixture.send("GET", path, key: fixture.clientKey).status == 403)
        let patch = #"{"windows":[{"name":"n","cron":"* * * * *","duration":60,"max_bytes":5}]}"#
        #expect(try fixture.send("PATCH", path, patch, key: fixture.clientKey).status == 403)
        let changed = try fixture.send("PATCH", path, patch)
        let window = try #require(changed.json["windows"]?.array?.first)
        #expect(changed.status == 200 && window["open"]?.bool == true && window["max_bytes"]?.integer == 5)
        #expect(window["time_zone"]?.string == "UTC" && window["closes_at"]?.isNull == false)
        let wrong = try fixture.send("PATCH", path, #"{"windows":[{"name":"n","cron":"x","duration":1}]}"#)
        #expect(wrong.status == 422)
        #expect(
            wrong.json["errors"]?.array?.compactMap { $0["pointer"]?.string }.sorted()
                == ["#/windows/0/cron", "#/windows/0/duration"])
        #expect(try fixture.send("GET", path).json == changed.json)
    }
}
