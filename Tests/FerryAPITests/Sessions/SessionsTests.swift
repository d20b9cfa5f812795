import FerryCore
import Synchronization
import Testing

@testable import FerryAPI

@Suite("Sessions")
struct SessionsTests {
    @Test("PUT creates a session, is idempotent, needs If-Match for a change, and shows the effective values")
    func putting() throws {
        let fixture = Fixture()
        let put = { (body: String, tag: String?) in
            try fixture.send(
                "PUT", "/v1/sessions/night.ly", body, tag.map { [("If-Match", $0)] } ?? [])
        }
        let created = try put(#"{"weight":2}"#, nil)
        #expect(created.status == 201 && created.header("Location") == "/v1/sessions/night.ly")
        #expect(created.header("ETag") == "\"r1\"" && created.json["weight"]?.double == 2)
        #expect(created.json["http_maximum_connections_per_host"] == .integer(6))
        #expect(created.json["identifier"] == .string("night.ly"))
        #expect(try put(#"{"weight":2}"#, nil).status == 200)
        let blind = try put(#"{"weight":3}"#, nil)
        #expect(blind.status == 428 && blind.code == "precondition_required")
        #expect(try put(#"{"weight":3}"#, "\"r9\"").code == "stale")
        let changed = try put(#"{"weight":3}"#, "\"r1\"")
        #expect(changed.status == 200 && changed.header("ETag") == "\"r2\"")
        let wrong = try put(#"{"weight":0,"x":1}"#, "\"r2\"")
        #expect(wrong.status == 422 && wrong.json["errors"]?.array?.count == 2)
        let read = try fixture.send("GET", "/v1/sessions/night.ly")
        #expect(read.status == 200 && read.json["weight"]?.double == 3)
        #expect(read.json["jobs"]?["is_exact"] == .bool(true))
        #expect(try fixture.send("PUT", "/v1/sessions/a%20b", "{}").status == 400)
        #expect(try fixture.send("GET", "/v1/sessions/nobody").status == 404)
        #expect(try fixture.send("PUT", "/v1/sessions/x", "{}", key: fixture.viewerKey).status == 403)
        let implicit = try fixture.send("GET", "/v1/sessions/default").json
        #expect(implicit["is_configured"] == .bool(false))
        #expect(
            implicit["http_maximum_connections_per_host"] == .integer(6)
                && implicit["revision"] == .integer(0))
    }

    @Test("a change succeeds if If-Match lists the session's revision among others")
    func revisions() throws {
        let fixture = Fixture()
        let send = { (method: String, path: String, body: String?, tags: String) in
            try fixture.send(method, "/v1/sessions/s" + path, body, [("If-Match", tags)])
        }
        let (put, finish) = (#"{"weight":2}"#, #"{"mode":"finish"}"#)
        #expect(try fixture.send("PUT", "/v1/sessions/s", "{}").status == 201)
        #expect(try send("PUT", "", put, #""r8", "r9""#).json["revision"] == .integer(1))
        #expect(try send("PUT", "", put, #""r9", "r1""#).header("ETag") == #""r2""#)
        #expect(try send("POST", "/invalidate", finish, #""r1", "r3""#).status == 412)
        #expect(try send("POST", "/invalidate", finish, #""r1", "r2""#).status == 200)
        #expect(try send("DELETE", "", nil, #""r1", "r2""#).status == 412)
        #expect(try send("DELETE", "", nil, #""r1", "r3""#).status == 204)
    }

    @Test("secrets of a session are stored sealed and never shown")
    func secrets() throws {
        let fixture = Fixture()
        let body = #"""
            {"http_additional_headers":{"Authorization":"hush","Accept":"a/b"},
            "proxy":{"url":"http://proxy.example:3128","user":"u","password":"hush"}}
            """#
        let response = try fixture.send("PUT", "/v1/sessions/s", body)
        #expect(response.status == 201)
        #expect(response.json["http_additional_headers"]?["Authorization"]?["set"] == .bool(true))
        #expect(response.json["proxy"]?["password"]?["set"] == .bool(true))
        #expect(!String(decoding: response.body, as: UTF8.self).contains("hush"))
        let job = try fixture.send(
            "POST", "/v1/jobs", #"{"kind":"data","session":"s","request":{"url":"https://a.example/"}}"#)
        #expect(job.json["request"]?["headers"]?["Accept"] == .string("a/b"))
        #expect(job.json["request"]?["headers"]?["Authorization"]?["set"] == .bool(true))
        #expect(!String(decoding: job.body, as: UTF8.self).contains("hush"))
        let sealed = fixture.store.state.withLock { $0.submissions.last?.jobs.first?.sealedSecrets }
        #expect(sealed?.first == 0xEE)
    }

    @Test("the secrets of a session's webhook are shown to no reader, and its URL to no viewer")
    func webhook() throws {
        let fixture = Fixture()
        let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
        let body = #"""
            {"webhook":{"url":"https://b.example/?token=hush","secret":"\#(secret)","headers":{"X-A":"mine"}}}
            """#
        #expect(try fixture.send("PUT", "/v1/sessions/s", body).status == 201)
        #expect(try fixture.send("PUT", "/v1/sessions/s", body).status == 200)
        let changed = body.replacing("mine", with: "other")
        #expect(try fixture.send("PUT", "/v1/sessions/s", changed).code == "precondition_required")
        let job = try fixture.send(
            "POST", "/v1/jobs", #"{"kind":"data","session":"s","request":{"url":"https://a.example/"}}"#)
        let place = try "/v1/jobs/\(#require(job.json["id"]?.string))"
        for path in ["/v1/sessions/s", place] {
            let full = try fixture.send("GET", path).json["webhook"]
            #expect(full?["url"] == .string("https://b.example/?token=hush"))
            #expect(full?["secret"]?["set"] == .bool(true) && full?["headers"]?["X-A"]?["set"] == .bool(true))
            let viewed = try fixture.send("GET", path, key: fixture.viewerKey)
            let text = String(decoding: viewed.body, as: UTF8.self)
            #expect(viewed.json["webhook"]?["url"] == .string("https://b.example/?token=***"))
            for hidden in ["hush", "mine", secret] { #expect(!text.contains(hidden)) }
        }
    }

    @Test("a submission is validated again if its session's configuration has changed", arguments: [1, 3])
    func again(_ count: Int) throws {
        let fixture = Fixture()
        let job = #"{"kind":"data","session":"s","request":{"url":"https://a.example/"}}"#
        for (path, body) in [("/v1/jobs", job), ("/v1/jobs/batch", #"{"jobs":[\#(job)]}"#)] {
            fixture.store.state.withLock { $0.outdatedCount = count }
            #expect(try fixture.send("POST", path, body).status == 201)
            #expect(fixture.store.state.withLock { $0.outdatedCount } == 0)
        }
        fixture.store.state.withLock { $0.outdatedCount = count }
        let waited = try fixture.send("POST", "/v1/jobs", job, [("Prefer", "wait=1")])
        #expect(waited.status == 201)
    }

    @Test("sessions are listed by name, and a session's jobs equal the filtered list of jobs")
    func lists() throws {
        let fixture = Fixture()
        for name in ["a", "b", "c"] {
            #expect(try fixture.send("PUT", "/v1/sessions/\(name)", "{}").status == 201)
        }
        let first = try fixture.send("GET", "/v1/sessions?limit=2")
        #expect(first.json["data"]?.array?.compactMap { $0["identifier"]?.string } == ["a", "b"])
        #expect(
            first.json["next_cursor"] == .string("session.b")
                && first.json["data"]?.array?[0]["jobs"] == .null)
        #expect(first.header("Link") == "</v1/sessions?limit=2&cursor=session.b>; rel=\"next\"")
        let rest = try fixture.send("GET", "/v1/sessions?limit=2&cursor=session.b")
        #expect(rest.json["data"]?.array?.count == 1 && rest.json["next_cursor"] == .null)
        for cursor in ["%2F", "junk", "session.%2F", "tenant.b", "session."] {
            #expect(try fixture.send("GET", "/v1/sessions?cursor=\(cursor)").code == "invalid_cursor")
        }
        #expect(try fixture.send("GET", "/v1/sessions/b/jobs?kind=data&state=queued").status == 200)
        let query = try #require(fixture.store.state.withLock { $0.queries.last })
        #expect(query.session == "b" && query.kind == .data && query.states == [.queued])
        #expect(try fixture.send("GET", "/v1/sessions/b/jobs?session=c").status == 400)
    }

    @Test(
        "invalidating needs a mode; the default session refuses it; an invalidated session can be deleted"
    )
    func invalidating() throws {
        let fixture = Fixture()
        #expect(try fixture.send("PUT", "/v1/sessions/s", "{}").status == 201)
        #expect(try fixture.send("DELETE", "/v1/sessions/s").code == "session_in_use")
        let path = "/v1/sessions/s/invalidate"
        #expect(
            try fixture.send("POST", path, "{}").json["errors"]?.array?[0]["pointer"] == .string("#/mode"))
        #expect(try fixture.send("POST", path, #"{"mode":"now"}"#).status == 422)
        let done = try fixture.send("POST", path, #"{"mode":"finish"}"#)
        #expect(done.status == 200 && done.json["invalidation"] == .string("finish"))
        #expect(try fixture.send("PUT", "/v1/sessions/s", "{}").code == "session_invalidated")
        let standard = try fixture.send("POST", "/v1/sessions/default/invalidate", #"{"mode":"cancel"}"#)
        #expect(
            standard.status == 409 && standard.json["detail"]?.string?.contains("never invalidated") == true)
        #expect(try fixture.send("DELETE", "/v1/sessions/s").status == 204)
        #expect(try fixture.send("GET", "/v1/sessions/s").status == 404)
    }
}
