import FerryCore
import Synchronization
import Testing

@testable import FerryAPI

@Suite("Job commands")
struct ControlJobsTests {
    @Test("PATCH merges, validates like a submission, and obeys If-Match")
    func patch() throws {
        let fixture = Fixture()
        let made = try fixture.send("POST", "/v1/jobs", small())
        let id = try #require(made.json["id"]?.string)
        let patch = { (body: String, headers: [(String, String)]) in
            try fixture.send("PATCH", "/v1/jobs/\(id)", body, headers.map { (name: $0.0, value: $0.1) })
        }
        let first = try patch(
            #"{"description":"d","metadata":{"a":"1","b":"2"},"schedule":{"priority":0.25}}"#, [])
        #expect(first.status == 200 && first.json["metadata"]?["b"]?.string == "2")
        let second = try patch(
            #"{"metadata":{"a":null},"schedule":null,"network":{"max_bytes_per_second":9}}"#, [])
        #expect(second.json["description"]?.string == "d")
        #expect(second.json["metadata"] == .object([.init("b", .string("2"))]))
        #expect(second.json["schedule"]?["priority"]?.double == 0.5)
        #expect(second.json["network"]?["max_bytes_per_second"]?.integer == 9)
        #expect(try patch(#"{"description":null}"#, [("If-Match", "\"r1\"")]).status == 412)
        #expect(try patch(#"{"description":null}"#, [("If-Match", "\"r3\"")]).status == 200)
        #expect(try patch("{}", [("Content-Type", "text/plain")]).status == 415)
        let wrong = try patch(
            #"{"kind":"data","request":{"method":"PUT","timeout_for_request":0},"schedule":{"priority":7},"#
                + #""retry":{"nonsense":1},"x":1}"#, [])
        #expect(wrong.status == 422)
        #expect(
            Set(wrong.json["errors"]?.array?.compactMap { $0["pointer"]?.string } ?? []) == [
                "#/kind", "#/request/method", "#/request/timeout_for_request", "#/schedule/priority",
                "#/retry/nonsense", "#/x",
            ])
        #expect(try fixture.send("PATCH", "/v1/jobs/job_00000000000000000000000000", "{}").status == 404)
    }

    @Test("a queued job is cancelled immediately; cancelling it again is 409 with its state")
    func cancel() throws {
        let fixture = Fixture()
        let id = try fixture.submit()
        #expect(try fixture.send("POST", "/v1/jobs/\(id)/cancel").json["state"] == .string("cancelled"))
        let again = try fixture.send("POST", "/v1/jobs/\(id)/cancel", "{}")
        #expect(
            again.status == 409 && again.code == "invalid_state"
                && again.json["state"] == .string("cancelled"))
    }

    @Test("the response to cancelling a running job waits for its node")
    func cancelRunning() throws {
        let fixture = Fixture()
        let id = try fixture.submit()
        fixture.store.state.withLock { $0.jobs[id]?.state = .running }
        let response = try fixture.send("POST", "/v1/jobs/\(id)/cancel", #"{"produce_resume_data":false}"#)
        #expect(response.status == 200 && response.json["state"] == .string("running"))
    }

    @Test("an invalid body of cancel is 422")
    func cancelBody() throws {
        let fixture = Fixture()
        let id = try fixture.submit()
        for body in [#"{"produce_resume_data":1}"#, #"{"x":1}"#, "[]"] {
            #expect(try fixture.send("POST", "/v1/jobs/\(id)/cancel", body).status == 422, "\(body)")
        }
    }

    @Test("suspend and resume respond with the job, or with 409 and its state")
    func suspend() throws {
        let fixture = Fixture()
        let id = try fixture.submit()
        let suspended = try fixture.send("POST", "/v1/jobs/\(id)/suspend")
        #expect(suspended.status == 200 && suspended.json["state"] == .string("suspended"))
        let again = try fixture.send("POST", "/v1/jobs/\(id)/suspend", "{}")
        #expect(again.status == 409 && again.json["state"] == .string("suspended"))
        #expect(try fixture.send("POST", "/v1/jobs/\(id)/resume", #"{"x":1}"#).status == 422)
        let resumed = try fixture.send("POST", "/v1/jobs/\(id)/resume", nil, [("If-Match", "\"r2\"")])
        #expect(resumed.status == 200 && resumed.json["state"] == .string("queued"))
        #expect(try fixture.send("POST", "/v1/jobs/\(id)/resume").code == "invalid_state")
    }

    @Test("a cancelled job shows its resume data; resume data that Ferry has not issued is 422")
    func resumeData() throws {
        let fixture = Fixture()
        let id = try fixture.submit()
        let response = try fixture.send("POST", "/v1/jobs/\(id)/cancel", #"{"produce_resume_data":true}"#)
        #expect(response.json["resume_data"] == .string("x"))
        for data in [#""x""#, #""""#, "1", "{}"] {
            let refused = try fixture.send(
                "POST", "/v1/jobs",
                #"{"kind":"download","request":{"url":"http://a.example/"},"resume_data":\#(data)}"#)
            #expect(refused.status == 422)
            #expect(refused.json["errors"]?.array?.first?["pointer"] == .string("#/resume_data"))
        }
    }

    @Test("a command with an old revision in If-Match is 412")
    func stale() throws {
        let fixture = Fixture()
        let id = try fixture.submit()
        for tag in ["\"r7\"", "W/\"r1\"", "r1", "\"x\"", ""] {
            let response = try fixture.send("POST", "/v1/jobs/\(id)/cancel", nil, [("If-Match", tag)])
            #expect(response.status == 412 && response.json["revision"] == .integer(1), "\(tag)")
        }
        #expect(
            try fixture.send("POST", "/v1/jobs/\(id)/cancel", nil, [("If-Match", "\"r1\"")]).status == 200)
    }

    @Test("a command succeeds if If-Match lists the job's revision among others")
    func revisions() throws {
        let fixture = Fixture()
        let path = "/v1/jobs/\(try fixture.submit())"
        let send = { (method: String, target: String, body: String?, tags: String) in
            try fixture.send(method, target, body, [("If-Match", tags)])
        }
        for tags in [#""r7", "r8""#, #""r7", W/"r1""#, #""r7", r1"#, #""r7, "r1""#] {
            let response = try send("POST", path + "/suspend", nil, tags)
            #expect(response.status == 412 && response.json["revision"] == .integer(1), "\(tags)")
        }
        #expect(try send("POST", path + "/suspend", nil, #""r7", "r1", "r8""#).status == 200)
        #expect(try send("POST", path + "/resume", nil, #""r1","r2""#).header("ETag") == #""r3""#)
        #expect(try send("PATCH", path, #"{"description":"d"}"#, #""r1", "x", "r3""#).status == 200)
        #expect(try send("POST", path + "/cancel", "{}", #""r2", "r3""#).json["revision"] == .integer(4))
        #expect(try send("POST", path + "/cancel", "{}", #""r3", "r4""#).status == 200)
        #expect(try send("DELETE", path, nil, #""r3", "r4""#).status == 412)
        #expect(try send("DELETE", path, nil, #""r4", "r5""#).status == 204)
    }

    @Test("a terminal job is deleted, an unfinished one is 409")
    func delete() throws {
        let fixture = Fixture()
        let id = try fixture.submit()
        #expect(try fixture.send("DELETE", "/v1/jobs/\(id)").status == 409)
        fixture.store.finish(id, .succeeded)
        #expect(try fixture.send("DELETE", "/v1/jobs/\(id)", nil, [("If-Match", "*")]).status == 204)
        #expect(try fixture.send("DELETE", "/v1/jobs/\(id)").status == 404)
    }

    @Test("a job is submitted as suspended, alone or in a batch; its retry is not suspended")
    func submittedSuspended() throws {
        let fixture = Fixture()
        let body = #"{"kind":"data","request":{"url":"http://a.example/"},"suspended":true}"#
        let created = try fixture.send("POST", "/v1/jobs", body, [("Idempotency-Key", "k")])
        #expect(created.status == 201 && created.json["state"] == .string("suspended"))
        #expect(created.json["suspended"] == .bool(true) && created.json["waiting_for"] == .null)
        #expect(created.json["waiting_reason"]?["code"] == .string("suspended"))
        let again = try fixture.send("POST", "/v1/jobs", body, [("Idempotency-Key", "k")])
        #expect(again.status == 201 && again.json == created.json)
        let batch = try fixture.send("POST", "/v1/jobs/batch", #"{"jobs":[\#(body)]}"#)
        #expect(batch.json["data"]?.array?.first?["state"] == .string("suspended"))
        let id = try #require(created.json["id"]?.string)
        for patch in [#"{"suspended":false}"#, #"{"suspended":null}"#] {
            #expect(try fixture.send("PATCH", "/v1/jobs/\(id)", patch).status == 422, "\(patch)")
        }
        let wrong = try fixture.send(
            "POST", "/v1/jobs",
            #"{"kind":"data","request":{"url":"http://a.example/"},"suspended":"yes"}"#)
        #expect(wrong.json["errors"]?.array?.first?["pointer"] == .string("#/suspended"))
        fixture.store.finish(try #require(JobID(id)), .failed)
        let retry = try fixture.send("POST", "/v1/jobs/\(id)/retry")
        #expect(retry.status == 201 && retry.json["state"] == .string("queued"))
        #expect(retry.json["suspended"] == .bool(false))
    }

    @Test("a retry is a new job that names the old one and has its secrets and payload")
    func retry() throws {
        let fixture = Fixture()
        let body =
            #"{"kind":"upload","request":{"url":"http://a.example/","headers":{"X-Api-Key":"k"}},"#
            + #""source":{"text":"t"}}"#
        let id = try #require(try fixture.send("POST", "/v1/jobs", body).json["id"]?.string)
        #expect(try fixture.send("POST", "/v1/jobs/\(id)/retry").status == 409)
        fixture.store.finish(try #require(JobID(id)), .failed)
        let response = try fixture.send("POST", "/v1/jobs/\(id)/retry")
        #expect(
            response.status == 201 && response.json["retry_of"] == .string(id)
                && response.json["id"] != .string(id)
        )
        let new = try #require(fixture.store.state.withLock { $0.submissions.last?.jobs.first })
        #expect(new.request.payload == [0x74] && new.request.secrets.headers == [.init("X-Api-Key", "k")])
        #expect(try fixture.send("POST", "/v1/jobs/\(id)/retry", #"{"x":1}"#).status == 422)
    }
}
