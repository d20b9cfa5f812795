import FerryCore
import Synchronization
import TestSupport
import Testing

@testable import FerryAPI

@Suite("Groups of jobs")
struct GroupsTests {
    @Test("a group is created, shown without the secrets of its webhook, listed, closed and deleted")
    func life() throws {
        let fixture = Fixture()
        let body = #"""
            {"name": "night.1", "description": "d", "metadata": {"a": "b"},
             "webhook": {"url": "https://93.184.216.34/", "headers": {"X-Key": "k"},
              "secret": "whsec_MDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAw"}}
            """#
        let created = try fixture.send("POST", "/v1/job_groups", body)
        #expect(created.status == 201 && created.header("Location") == "/v1/job_groups/night.1")
        #expect(created.json["state"]?.string == "open" && created.json["round"]?.integer == 1)
        #expect(created.json["counts"]?["succeeded"]?.integer == 0)
        #expect(created.json["open_failures"]?.integer == 0)
        #expect(created.json["webhook"]?["secret"]?["set"]?.bool == true)
        #expect(created.json["webhook"]?["headers"]?["X-Key"]?["set"]?.bool == true)
        #expect(fixture.store.state.withLock { $0.groups[0].sealedSecrets } != nil)
        #expect(try fixture.send("POST", "/v1/job_groups", body).code == "group_exists")
        let read = try fixture.send("GET", "/v1/job_groups/night.1")
        #expect(read.status == 200 && read.json == created.json)
        let tag = try #require(read.header("ETag"))
        #expect(try fixture.send("GET", "/v1/job_groups").json["data"]?.array == [created.json])
        #expect(try fixture.send("DELETE", "/v1/job_groups/night.1").code == "group_not_finished")
        let closed = try fixture.send("POST", "/v1/job_groups/night.1/close")
        #expect(closed.status == 200 && closed.json["state"]?.string == "finished")
        let stale = try fixture.send("DELETE", "/v1/job_groups/night.1", [("If-Match", tag)])
        #expect(stale.status == 412)
        let current = try #require(closed.header("ETag"))
        let gone = try fixture.send("DELETE", "/v1/job_groups/night.1", [("If-Match", current)])
        #expect(gone.status == 204)
        #expect(try fixture.send("GET", "/v1/job_groups/night.1").status == 404)
    }

    @Test(
        "a wrong name, an unknown field and a blocked webhook are errors of fields",
        arguments: [
            (#"{"name": "a b"}"#, "#/name"), (#"{"name": ".."}"#, "#/name"), (#"{}"#, "#/name"),
            (#"{"name": "a", "more": 1}"#, "#/more"),
            (#"{"name": "a", "webhook": {"url": "http://127.0.0.1/"}}"#, "#/webhook/url"),
        ])
    func invalid(_ body: String, _ pointer: String) throws {
        let response = try Fixture().send("POST", "/v1/job_groups", body)
        #expect(response.status == 422)
        #expect(response.json["errors"]?.array?.first?["pointer"]?.string == pointer)
    }

    @Test("a batch names a group for the jobs that have no member group, and closes it")
    func batch() throws {
        let fixture = Fixture()
        let request = #""request": {"url": "https://93.184.216.34/a"}"#
        let body = #"""
            {"group": "night", "close_group": true, "jobs": [
             {"kind": "data", \#(request)}, {"kind": "data", "group": "other", \#(request)},
             {"kind": "data", "group": null, \#(request)}]}
            """#
        #expect(try fixture.send("POST", "/v1/jobs/batch", body).status == 201)
        #expect(fixture.store.state.withLock { $0.submissions.map(\.closedGroup) } == ["night"])
        let jobs = fixture.store.state.withLock { Array($0.jobs.values) }.sorted { $0.id < $1.id }
        #expect(jobs.map { $0.spec?.group } == ["night", "other", nil])
        let response = try fixture.send("GET", "/v1/jobs/\(jobs[0].id)")
        #expect(response.json["group"]?.string == "night")
        let open = try fixture.send("POST", "/v1/jobs/batch", #"{"close_group": true, "jobs": []}"#)
        #expect(open.status == 422)
        #expect(open.json["errors"]?.array?.first?["pointer"]?.string == "#/close_group")
    }

    @Test("jobs of a group are listed with its name as filter, and 404 without the group")
    func jobs() throws {
        let fixture = Fixture()
        #expect(try fixture.send("GET", "/v1/job_groups/night/jobs").status == 404)
        _ = try fixture.send("POST", "/v1/job_groups", #"{"name": "night"}"#)
        #expect(try fixture.send("GET", "/v1/job_groups/night/jobs?state=failed").status == 200)
        #expect(try fixture.send("GET", "/v1/jobs?group=night").status == 200)
        #expect(try fixture.send("GET", "/v1/jobs?group=a%20b").status == 400)
        let queries = fixture.store.state.withLock { $0.queries }
        #expect(queries.map(\.group) == ["night", "night"] && queries[0].states == [.failed])
    }

    @Test("a group's expected bytes are null until the sizes of its unfinished jobs are known")
    func progress() throws {
        let fixture = Fixture()
        func add(_ schedule: String) throws {
            let body = #"""
                {"kind": "download", "group": "night", "schedule": \#(schedule),
                 "request": {"url": "https://93.184.216.34/a"}}
                """#
            #expect(try fixture.send("POST", "/v1/jobs", body).status == 201)
            fixture.store.state.withLock { $0.groups[0].counts.queued += 1 }
        }
        func progress() throws -> JSON? { try fixture.send("GET", "/v1/job_groups/night").json["progress"] }
        _ = try fixture.send("POST", "/v1/job_groups", #"{"name": "night"}"#)
        #expect(try progress()?["fraction_completed"] == .null)
        fixture.store.state.withLock { state in
            state.groups[0].counts.succeeded = 1
            state.groups[0].bytesReceived = 50
            state.groups[0].jobsPerSecond = 0.5
        }
        #expect(try progress()?["bytes_expected_to_receive"]?.integer == 50)
        try add(#"{"expected_bytes_to_receive": 1000}"#)
        let known = try progress()
        #expect(known?["bytes_received"]?.integer == 50)
        #expect(known?["bytes_expected_to_receive"]?.integer == 1_050)
        #expect(known?["bytes_expected_to_send"]?.integer == 0)
        #expect(known?["fraction_completed"]?.double == 0.5 && known?["seconds_remaining"]?.double == 2)
        try add("{}")
        let unknown = try progress()
        #expect(unknown?["bytes_expected_to_receive"] == .null && unknown?["seconds_remaining"]?.double == 4)
        let listed = try fixture.send("GET", "/v1/job_groups").json["data"]?.array?.first?["progress"]
        #expect(listed?["bytes_received"]?.integer == 50)
    }

    @Test(
        "a command on a group starts an operation with its name as filter; a retry takes open failures",
        arguments: BulkCommand.allCases)
    func command(_ command: BulkCommand) throws {
        let fixture = Fixture()
        let path = "/v1/job_groups/night/\(command.rawValue)"
        #expect(try fixture.send("POST", path).status == 404)
        _ = try fixture.send("POST", "/v1/job_groups", #"{"name": "night"}"#)
        let response = try fixture.send("POST", path, "", [("Idempotency-Key", "k")])
        #expect(response.status == 202 && response.json["kind"]?.string == command.rawValue)
        let id = try #require(response.json["id"]?.string)
        #expect(response.header("Location") == "/v1/operations/\(id)")
        let again = try fixture.send("POST", path, "", [("Idempotency-Key", "k")])
        #expect(again.json["id"]?.string == id && again.header("Idempotency-Replayed") == "true")
        var filter = JobFilter()
        filter.group = "night"
        if command == .retry { (filter.states, filter.isRetried) = ([.failed], false) }
        #expect(fixture.store.state.withLock { $0.newBulkOperations.map(\.selection) } == [.filter(filter)])
        #expect(try fixture.send("POST", path, key: fixture.viewerKey).status == 403)
        #expect(try fixture.send("POST", path, key: fixture.strangerKey).status == 404)
    }

    @Test("a dry run on a group counts its jobs, only a cancellation keeps bytes, unknown fields are errors")
    func commandBody() throws {
        let fixture = Fixture()
        _ = try fixture.send("POST", "/v1/job_groups", #"{"name": "night"}"#)
        let count = try fixture.send("POST", "/v1/job_groups/night/retry", #"{"dry_run": true}"#)
        #expect(count.status == 200 && count.json["matched"]?.integer == 0)
        #expect(fixture.store.state.withLock { $0.newBulkOperations.isEmpty })
        let body = #"{"produce_resume_data": true}"#
        #expect(try fixture.send("POST", "/v1/job_groups/night/cancel", body).status == 202)
        #expect(fixture.store.state.withLock { $0.newBulkOperations.last?.keepsBytes } == true)
        let wrong = try fixture.send("POST", "/v1/job_groups/night/suspend", body)
        #expect(wrong.status == 422)
        #expect(wrong.json["errors"]?.array?.first?["pointer"]?.string == "#/produce_resume_data")
    }
}
