import FerryCore
import Synchronization
import Testing

@testable import FerryAPI

@Suite("Commands of operators")
struct OperatorTests {
    @Test("the service is paused and resumed, and the status shows it")
    func pause() throws {
        let fixture = Fixture()
        let paused = try fixture.send("POST", "/v1/admin/pause")
        #expect(paused.status == 200 && paused.json["paused"] == .bool(true))
        #expect(try fixture.send("GET", "/v1/admin/status").json["paused"] == .bool(true))
        #expect(try fixture.send("POST", "/v1/admin/resume", "{}").json["paused"] == .bool(false))
        #expect(try fixture.send("GET", "/v1/admin/status").json["paused"] == .bool(false))
        #expect(try fixture.send("POST", "/v1/admin/pause", #"{"x":1}"#).status == 422)
    }

    @Test("a node is drained and resumed; an unknown node is 404")
    func drain() throws {
        let fixture = Fixture()
        let node = NodeID(high: 1, low: 1)
        let drained = try fixture.send("POST", "/v1/admin/nodes/\(node)/drain")
        #expect(drained.status == 200 && drained.json["draining"] == .bool(true))
        let list = try fixture.send("GET", "/v1/admin/nodes").json["data"]?.array
        #expect(list == [drained.json])
        let resumed = try fixture.send("POST", "/v1/admin/nodes/\(node)/resume")
        #expect(resumed.json["draining"] == .bool(false))
        for id in ["nod_00000000000000000000000009", "x"] {
            #expect(try fixture.send("POST", "/v1/admin/nodes/\(id)/drain").status == 404)
        }
    }

    @Test("every operator's change is recorded before it is made, with key, body and outcome")
    func audit() throws {
        let fixture = Fixture()
        _ = try fixture.send("POST", "/v1/admin/pause")
        let body = #"{"name":"ci","role":"viewer"}"#
        let made = try fixture.send("POST", "/v1/admin/keys", body, key: fixture.strangerKey)
        _ = try fixture.send("PATCH", "/v1/admin/limits", #"{"secret":"x"}"#)
        _ = try fixture.send("GET", "/v1/admin/status")
        let page = try fixture.send("GET", "/v1/admin/audit?limit=2")
        let entries = try #require(page.json["data"]?.array)
        #expect(
            entries.map { $0["operation"]?.string } == ["changeLimits", "createKey"])
        #expect(entries[0]["status"] == .integer(422) && entries[0]["body"] == .null)
        #expect(entries[0]["key"] == .string("\(Fixture.adminKeyID)"))
        #expect(entries[0]["key_name"] == .string("FERRY_ADMIN_KEY"))
        #expect(entries[1]["status"] == .integer(201) && entries[1]["path"] == .string("/v1/admin/keys"))
        #expect(entries[1]["body"] == (try JSON.parse(Array(body.utf8))))
        #expect(entries[1]["key"] == .string("\(KeyID(high: 0, low: 3))"))
        #expect(entries[1]["key_name"] == .string("admin"))
        let shown = String(decoding: page.body, as: UTF8.self)
        #expect(!shown.contains(try #require(made.json["key"]?.string)) && !shown.contains("secret"))
        let cursor = try #require(page.json["next_cursor"]?.string)
        let rest = try fixture.send("GET", "/v1/admin/audit?cursor=\(cursor)").json
        #expect(rest["data"]?.array?.map { $0["operation"] } == [.string("pauseService")])
        #expect(rest["next_cursor"] == .null)
    }

    @Test("a change that cannot be recorded is not made")
    func failClosed() throws {
        let fixture = Fixture()
        fixture.store.state.withLock { $0.failure = .unavailable }
        #expect(try fixture.send("POST", "/v1/admin/pause").status == 503)
        #expect(!fixture.store.state.withLock { $0.isPaused })
    }

    @Test("jobs are counted by tenant; commands of operators need the role admin")
    func roles() throws {
        let fixture = Fixture()
        let tenants = try fixture.send("GET", "/v1/admin/tenants").json["data"]?.array
        #expect(tenants?.first?["suspended"] == .integer(4))
        for (method, path) in [
            ("POST", "pause"), ("POST", "resume"), ("GET", "tenants"), ("GET", "audit"),
            ("POST", "nodes/x/drain"),
        ] {
            #expect(try fixture.send(method, "/v1/admin/\(path)", nil, key: fixture.clientKey).status == 403)
        }
    }

    @Test("too many unfinished jobs and a full queue are 429 with the quota")
    func quotas() throws {
        let fixture = Fixture()
        for (error, code, policy, limit) in [
            (
                StoreError.tooManyJobs(max: 70, retryAfter: 2.3), "too_many_jobs", #""jobs";q=70"#,
                #""jobs";r=0;t=3"#
            ),
            (
                .quotaExceeded(.unfinishedJobs, max: 5, retryAfter: 2.3), "quota_exceeded",
                #""jobs";q=5"#, #""jobs";r=0;t=3"#
            ),
            (
                .quotaExceeded(.bytesPerDay, max: 900, retryAfter: 2.3), "quota_exceeded",
                #""bytes";q=900;w=86400"#, #""bytes";r=0;t=3"#
            ),
            (.tooManyReads, "overloaded", #""reads";q=256"#, #""reads";r=0;t=1"#),
            (.overloaded, "overloaded", #""submissions";q=20000"#, #""submissions";r=0;t=1"#),
        ] {
            fixture.store.state.withLock { $0.failure = error }
            let response = try fixture.send("POST", "/v1/jobs", small())
            #expect(response.status == 429 && response.code == code)
            #expect(response.header("RateLimit-Policy") == policy && response.header("RateLimit") == limit)
            #expect(response.header("Retry-After") == (code == "overloaded" ? "1" : "3"))
        }
    }
}
