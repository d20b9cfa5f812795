import FerryCore
import Synchronization
import Sys
import Testing

@testable import FerryAPI

@Suite("POST /v1/jobs")
struct CreateJobsTests {
    @Test("an accepted job is 201 with Location and ETag")
    func accepted() throws {
        let fixture = Fixture()
        let response = try fixture.send("POST", "/v1/jobs", small())
        #expect(response.status == 201)
        let id = try #require(response.json["id"]?.string)
        #expect(response.header("Location") == "/v1/jobs/\(id)")
        #expect(response.header("ETag") == "\"r1\"")
        #expect(response.header("Content-Type") == "application/json")
        #expect(response.json["state"] == .string("queued"))
        #expect(response.json["retry"]?["max_attempts"] == .integer(8))
    }

    @Test("a job with an invalid field is 422 with a pointer, and nothing is stored")
    func invalid() throws {
        let fixture = Fixture()
        let response = try fixture.send("POST", "/v1/jobs", small(#","schedule":{"priority":"high"}"#))
        #expect(response.status == 422 && response.code == "invalid_fields")
        #expect(response.header("Content-Type") == "application/problem+json")
        #expect(response.json["errors"]?.array?.first?["pointer"] == .string("#/schedule/priority"))
        #expect(response.json["request_id"] == .string("req-1"))
        #expect(response.json["type"] == .string("/docs#invalid_fields"))
        #expect(fixture.store.state.withLock { $0.submissions.isEmpty })
    }

    @Test("a job for a blocked address is 422, and nothing is stored")
    func blocked() throws {
        let response = try Fixture().send(
            "POST", "/v1/jobs", #"{"kind":"data","request":{"url":"http://169.254.169.254/latest"}}"#)
        #expect(response.json["errors"]?.array?.first?["code"] == .string("blocked_address"))
    }

    @Test("spaces and a host beyond ASCII are normalised; a line break is rejected with the corrected URL")
    func normalisedURL() throws {
        let fixture = Fixture()
        let response = try fixture.send(
            "POST", "/v1/jobs", #"{"kind":"data","request":{"url":" http://Bücher.example/a b?ü "}}"#)
        #expect(response.status == 201)
        #expect(
            response.json["request"]?["url"]?.string == "http://xn--bcher-kva.example/a%20b?%C3%BC",
            "\(response.json)")
        let rejected = try fixture.send(
            "POST", "/v1/jobs", #"{"kind":"data","request":{"url":"http://a.example/b\nc"}}"#)
        let error = rejected.json["errors"]?.array?.first
        #expect(rejected.status == 422 && error?["pointer"] == .string("#/request/url"))
        #expect(error?["detail"]?.string?.contains("http://a.example/bc") == true, "\(rejected.json)")
        let local = try fixture.send(
            "POST", "/v1/jobs", #"{"kind":"data","request":{"url":"http://１２７。0.0.1/"}}"#)
        #expect(local.json["errors"]?.array?.first?["code"] == .string("blocked_address"))
    }

    @Test("only an admin key may submit a job with Host, or move one to another origin")
    func hostField() throws {
        let fixture = Fixture()
        let job = #"{"kind":"data","request":{"url":"http://a.example/","headers":{"Host":"b.example"}}}"#
        let client = try fixture.send("POST", "/v1/jobs", job, key: fixture.clientKey)
        #expect(client.status == 422, "\(client.json)")
        #expect(client.json["errors"]?.array?.first?["pointer"] == .string("#/request/headers/Host"))
        #expect(client.json["errors"]?.array?.first?["detail"]?.string?.contains("admin") == true)
        let admin = try fixture.send("POST", "/v1/jobs", job)
        #expect(admin.status == 201 && admin.json["request"]?["headers"]?["Host"] == .string("b.example"))
        let batch = try fixture.send("POST", "/v1/jobs/batch", #"{"jobs":[\#(job)]}"#, key: fixture.clientKey)
        #expect(
            batch.json["errors"]?.array?.first?["pointer"] == .string("#/jobs/0/request/headers/Host"))
        let path = "/v1/jobs/\(try #require(admin.json["id"]?.string))"
        let other = #"{"request":{"url":"http://c.example/"}}"#
        let refused = try fixture.send("PATCH", path, other, key: fixture.clientKey)
        #expect(refused.status == 422, "\(refused.json)")
        #expect(refused.json["errors"]?.array?.first?["pointer"] == .string("#/request/url"))
        let moved = try fixture.send("PATCH", path, other)
        #expect(moved.status == 200 && moved.json["request"]?["headers"]?["Host"] == .string("b.example"))
    }

    @Test(
        "a body that is not JSON is 400, another media type 415",
        arguments: [" ", "{", "[1,", "\"", "{\"kind\":}", "nul"])
    func badJSON(_ body: String) throws {
        let fixture = Fixture()
        #expect(try fixture.send("POST", "/v1/jobs", body).code == "bad_json")
        let response = try fixture.send("POST", "/v1/jobs", body, [("Content-Type", "text/plain")])
        #expect(response.status == 415 && response.header("Accept-Post") == "application/json")
    }

    @Test("secrets are stored sealed and are not in the response")
    func secrets() throws {
        let fixture = Fixture()
        let response = try fixture.send(
            "POST", "/v1/jobs",
            #"{"kind":"data","request":{"url":"http://a.example/","headers":{"Authorization":"hush"}}}"#)
        #expect(!String(decoding: response.body, as: UTF8.self).contains("hush"))
        let job = try #require(fixture.store.state.withLock { $0.submissions.first?.jobs.first })
        #expect(job.sealedSecrets?.first == 0xEE)
        #expect(job.request.secrets.headers.first?.value == "hush")
    }

    @Test("a repeated idempotency key gets the first response, with another body 422")
    func idempotency() throws {
        let fixture = Fixture()
        let first = try fixture.send("POST", "/v1/jobs", small(), [("Idempotency-Key", "\"abc\"")])
        let again = try fixture.send("POST", "/v1/jobs", small(), [("Idempotency-Key", "abc")])
        #expect(again.status == 201 && again.body == first.body)
        #expect(again.header("Idempotency-Replayed") == "true")
        let other = try fixture.send(
            "POST", "/v1/jobs", small(#","segments":1"#), [("Idempotency-Key", "abc")])
        #expect(other.status == 422 && other.code == "idempotency_key_reused")
        let stranger = try fixture.send(
            "POST", "/v1/jobs", small(), key: fixture.strangerKey, [("Idempotency-Key", "abc")])
        #expect(stranger.json["id"] != first.json["id"])
    }

    @Test("a repetition may write its body in another way, but not other values")
    func sameValues() throws {
        let fixture = Fixture()
        let job = { (members: String) in
            #"{"kind":"download","request":{"url":"https://a.example/x"},"destination":{"path":"caf\u00e9"},"#
                + members + "}"
        }
        func status(_ body: String, _ route: String = "/v1/jobs", key: String, type: String? = nil) throws
            -> String
        {
            let fields = [("Idempotency-Key", key)] + (type.map { [("Content-Type", $0)] } ?? [])
            let response = try fixture.send("POST", route, body, fields)
            return response.header("Idempotency-Replayed") ?? response.code ?? "\(response.status)"
        }
        let first = job(#""metadata":{"a":"1","b":"2"},"schedule":{"priority":1}"#)
        #expect(try status(first, key: "k") == "201")
        for same in [
            job(#""schedule":{"priority":1.0},"metadata":{"b":"2","a":"1"}"#),
            job(#"  "metadata" : {"\u0061":"\u0031", "b":"2"}, "schedule":{"priority":10e-1} "#),
        ] { #expect(try status(same, key: "k") == "true", "\(same)") }
        for other in [
            job(#""metadata":{"a":"2","b":"1"},"schedule":{"priority":1}"#),
            job(#""metadata":{"a":"1","b":"2"},"schedule":{"priority":0.1}"#),
            job(#""metadata":{"a":"1","b":"2"},"schedule":{"priority":1},"segments":1"#),
        ] { #expect(try status(other, key: "k") == "idempotency_key_reused", "\(other)") }
        let (batch, second) = ("/v1/jobs/batch", small())
        #expect(try status(#"{"jobs":[\#(first),\#(second)]}"#, batch, key: "b") == "201")
        #expect(try status("{\"jobs\" : [\(first),\n\(second)]}", batch, key: "b") == "true")
        #expect(try status(#"{"jobs":[\#(first)]}"#, batch, key: "b") == "idempotency_key_reused")
    }

    @Test(
        "a malformed idempotency key is 400",
        arguments: ["", "a b", "\"x", "é", String(repeating: "x", count: 256)])
    func badKey(_ key: String) throws {
        #expect(
            try Fixture().send("POST", "/v1/jobs", small(), [("Idempotency-Key", key)]).code
                == "invalid_header")
    }

    @Test("a submission whose unique key a job has responds with that job and 200, also if it is repeated")
    func unique() throws {
        let fixture = Fixture()
        let body = small(#","unique":{"key":"a","for":60}"#)
        let first = try fixture.send("POST", "/v1/jobs", body)
        #expect(first.status == 201)
        #expect(first.json["unique"]?["key"]?.string == "a" && first.json["unique"]?["for"]?.double == 60)
        let again = try fixture.send(
            "POST", "/v1/jobs", small(#","unique":{"key":"a"}"#), [("Idempotency-Key", "k")])
        #expect(again.status == 200 && again.json["id"] == first.json["id"])
        #expect(again.header("Location") == first.header("Location"))
        #expect(again.header("Idempotency-Replayed") == nil)
        let replay = try fixture.send(
            "POST", "/v1/jobs", small(#","unique":{"key":"a"}"#), [("Idempotency-Key", "k")])
        #expect(replay.status == 200 && replay.json["id"] == first.json["id"])
        #expect(replay.header("Idempotency-Replayed") == "true")
        let waited = try fixture.send("POST", "/v1/jobs", body, [("Prefer", "wait=1")])
        #expect(waited.status == 200 && waited.json["id"] == first.json["id"])
        #expect(waited.header("Preference-Applied") == "wait=1")
    }

    @Test(
        "a rule of a unique job outside of its bounds is an error with a pointer",
        arguments: [
            (#"{}"#, "#/unique/key", "required"),
            (#"{"key":""}"#, "#/unique/key", "invalid_value"),
            (#"{"key":"a\u0000"}"#, "#/unique/key", "invalid_value"),
            (#"{"key":"a","for":"ever"}"#, "#/unique/for", "invalid_value"),
            (#"{"key":"a","for":0}"#, "#/unique/for", "invalid_value"),
            (#"{"key":"a","for":604801}"#, "#/unique/for", "invalid_value"),
            (#"{"key":"a","of":1}"#, "#/unique/of", "unknown_field"),
        ])
    func uniqueRule(_ rule: String, _ pointer: String, _ code: String) throws {
        let response = try Fixture().send("POST", "/v1/jobs", small(#","unique":\#(rule)"#))
        let error = response.json["errors"]?.array?.first
        #expect(response.status == 422 && error?["pointer"]?.string == pointer, "\(response.json)")
        #expect(error?["code"]?.string == code)
    }

    @Test("Prefer: wait delays the response until the job has ended")
    func wait() throws {
        let fixture = Fixture()
        let store = fixture.store
        let waiters = fixture.waiters
        store.state.withLock {
            $0.afterSubmit = { id in
                store.finish(id, .succeeded)
                waiters.finished([id])
            }
        }
        let response = try fixture.send("POST", "/v1/jobs", small(), [("Prefer", "respond-async, wait=20")])
        #expect(response.status == 201)
        #expect(response.json["state"] == .string("succeeded"))
        #expect(response.header("Preference-Applied") == "wait=20")
        #expect(fixture.waiters.count == 0)
    }

    @Test("Prefer: wait responds when the job ends on another node")
    func waitElsewhere() throws {
        let fixture = Fixture()
        let store = fixture.store
        store.state.withLock { $0.afterSubmit = { store.finish($0, .failed) } }
        let response = try fixture.send("POST", "/v1/jobs", small(), [("Prefer", "wait=20")])
        #expect(response.json["state"] == .string("failed"))
    }

    @Test("after the wait, the response shows the job's progress")
    func waitOver() throws {
        let response = try Fixture().send("POST", "/v1/jobs", small(), [("Prefer", "wait=1")])
        #expect(response.status == 201 && response.json["state"] == .string("queued"))
    }

    @Test(
        "errors of the store have their status and code",
        arguments: zip(
            [StoreError.unavailable, .overloaded, .failed, .idempotencyKeyInProgress], [503, 429, 500, 409]))
    func failures(_ error: StoreError, _ status: Int) throws {
        let fixture = Fixture()
        fixture.store.state.withLock { $0.failure = error }
        for headers in [[], [("Prefer", "wait=5")]] as [[(name: String, value: String)]] {
            let response = try fixture.send("POST", "/v1/jobs", small(), headers)
            #expect(response.status == status)
            #expect((response.header("Retry-After") == "1") == (error != .failed))
        }
    }

    @Test("a valid traceparent is kept, any other is replaced")
    func trace() throws {
        let fixture = Fixture()
        let given = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
        for (sent, isKept) in [
            (given, true), (given + "-x", false), ("cc\(given.dropFirst(2))-more", true),
            ("00-" + String(repeating: "0", count: 32) + "-00f067aa0ba902b7-01", false),
        ] {
            _ = try fixture.send("POST", "/v1/jobs", small(), [("traceparent", sent)])
            let kept = try #require(
                fixture.store.state.withLock { $0.submissions.last?.jobs.first?.traceparent })
            #expect((kept == given) == isKept)
            #expect(validTraceparent(kept) == kept)
        }
        // Of the flags of another version, only "sampled" is used.
        let unsampled = "\(given.dropLast(2))00"
        #expect(validTraceparent("cc\(given.dropFirst(2).dropLast(2))fe") == unsampled)
        #expect(validTraceparent("cc\(given.dropFirst(2).dropLast(2))0b") == given)
        #expect(validTraceparent("ff\(given.dropFirst(2))") == nil)
    }

    @Test("errors of fields name types with their article, and whole numbers without a fraction")
    func wording() throws {
        let schedule = #""schedule":{"priority":2,"timeout_for_resource":0.5,"discretionary":1}"#
        let retry = #""retry":{"max_attempts":0,"multiplier":[],"non_idempotent":{}}"#
        let response = try Fixture().send(
            "POST", "/v1/jobs", small(",\(schedule),\(retry),\"metadata\":true"))
        let details = (response.json["errors"]?.array ?? []).reduce(into: [String: String]()) {
            $0[$1["pointer"]?.string ?? ""] = $1["detail"]?.string
        }
        #expect(
            details == [
                "#/metadata": "This must be an object, not a boolean.",
                "#/schedule/priority": "This must be from 0 to 1.",
                "#/schedule/timeout_for_resource": "This must be from 1 to 31536000.",
                "#/schedule/discretionary": "This must be a boolean, not a number.",
                "#/retry/max_attempts": "This must be from 1 to 1000000.",
                "#/retry/multiplier": "This must be a number, not an array.",
                "#/retry/non_idempotent": "This must be a boolean, not an object.",
            ])
    }
}
