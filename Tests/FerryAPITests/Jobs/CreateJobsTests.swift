import FerryCore
import Synchronization
import Sys
import Testing

@testable import FerryAPI

@Suite("POST /v1/jobs")
struct CreateJobsTests {
    @Test("an accepted job is answered with 201, its place and its tag")
    func accepted() throws {
        let fixture = Fixture()
        let answer = try fixture.send("POST", "/v1/jobs", small())
        #expect(answer.status == 201)
        let id = try #require(answer.json["id"]?.string)
        #expect(answer.header("Location") == "/v1/jobs/\(id)")
        #expect(answer.header("ETag") == "\"r1\"")
        #expect(answer.header("Content-Type") == "application/json")
        #expect(answer.json["state"] == .string("queued"))
        #expect(answer.json["retry"]?["max_attempts"] == .integer(8))
    }

    @Test("nothing is stored when a field is wrong, and the answer names it")
    func invalid() throws {
        let fixture = Fixture()
        let answer = try fixture.send("POST", "/v1/jobs", small(#","schedule":{"priority":"high"}"#))
        #expect(answer.status == 422 && answer.code == "invalid_fields")
        #expect(answer.header("Content-Type") == "application/problem+json")
        #expect(answer.json["errors"]?.array?.first?["pointer"] == .string("#/schedule/priority"))
        #expect(answer.json["request_id"] == .string("req-1"))
        #expect(answer.json["type"] == .string("/docs#invalid_fields"))
        #expect(fixture.store.state.withLock { $0.submissions.isEmpty })
    }

    @Test("a blocked address is refused before anything is stored")
    func blocked() throws {
        let answer = try Fixture().send(
            "POST", "/v1/jobs", #"{"kind":"data","request":{"url":"http://169.254.169.254/latest"}}"#)
        #expect(answer.json["errors"]?.array?.first?["code"] == .string("blocked_address"))
    }

    @Test(
        "what is no JSON is 400, another type 415", arguments: [" ", "{", "[1,", "\"", "{\"kind\":}", "nul"])
    func badJSON(_ body: String) throws {
        let fixture = Fixture()
        #expect(try fixture.send("POST", "/v1/jobs", body).code == "bad_json")
        let answer = try fixture.send("POST", "/v1/jobs", body, [("Content-Type", "text/plain")])
        #expect(answer.status == 415 && answer.header("Accept-Post") == "application/json")
    }

    @Test("secrets go to the store sealed, and the answer has none")
    func secrets() throws {
        let fixture = Fixture()
        let answer = try fixture.send(
            "POST", "/v1/jobs",
            #"{"kind":"data","request":{"url":"http://a.example/","headers":{"Authorization":"hush"}}}"#)
        #expect(!String(decoding: answer.body, as: UTF8.self).contains("hush"))
        let job = try #require(fixture.store.state.withLock { $0.submissions.first?.jobs.first })
        #expect(job.sealedSecrets?.first == 0xEE)
        #expect(job.secrets.headers.first?.value == "hush")
    }

    @Test("the same key with the same body gives the first answer again, with another body 422")
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

    @Test(
        "an unfit idempotency key is 400",
        arguments: ["", "a b", "\"x", "é", String(repeating: "x", count: 256)])
    func badKey(_ key: String) throws {
        #expect(
            try Fixture().send("POST", "/v1/jobs", small(), [("Idempotency-Key", key)]).code
                == "invalid_header")
    }

    @Test("Prefer: wait holds the answer until the job has ended")
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
        let answer = try fixture.send("POST", "/v1/jobs", small(), [("Prefer", "respond-async, wait=20")])
        #expect(answer.status == 201)
        #expect(answer.json["state"] == .string("succeeded"))
        #expect(answer.header("Preference-Applied") == "wait=20")
        #expect(fixture.waiters.count == 0)
    }

    @Test("a job that ends on another node is noticed all the same")
    func waitElsewhere() throws {
        let fixture = Fixture()
        let store = fixture.store
        store.state.withLock { $0.afterSubmit = { store.finish($0, .failed) } }
        let answer = try fixture.send("POST", "/v1/jobs", small(), [("Prefer", "wait=20")])
        #expect(answer.json["state"] == .string("failed"))
    }

    @Test("after the wait the answer says how far the job is")
    func waitOver() throws {
        let answer = try Fixture().send("POST", "/v1/jobs", small(), [("Prefer", "wait=1")])
        #expect(answer.status == 201 && answer.json["state"] == .string("queued"))
    }

    @Test(
        "a store that cannot is told as such",
        arguments: zip(
            [StoreError.unavailable, .overloaded, .failed, .idempotencyKeyInProgress], [503, 429, 500, 409]))
    func failures(_ error: StoreError, _ status: Int) throws {
        let fixture = Fixture()
        fixture.store.state.withLock { $0.failure = error }
        for headers in [[], [("Prefer", "wait=5")]] as [[(name: String, value: String)]] {
            let answer = try fixture.send("POST", "/v1/jobs", small(), headers)
            #expect(answer.status == status)
            #expect((answer.header("Retry-After") == "1") == (error != .failed))
        }
    }

    @Test("a valid traceparent is taken over, any other replaced")
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
        // Of another version's flags "sampled" alone is known.
        let unsampled = "\(given.dropLast(2))00"
        #expect(validTraceparent("cc\(given.dropFirst(2).dropLast(2))fe") == unsampled)
        #expect(validTraceparent("cc\(given.dropFirst(2).dropLast(2))0b") == given)
        #expect(validTraceparent("ff\(given.dropFirst(2))") == nil)
    }

    @Test("complaints name types and bounds in one way: with their article, whole numbers without a fraction")
    func wording() throws {
        let schedule = #""schedule":{"priority":2,"timeout_for_resource":0.5,"discretionary":1}"#
        let retry = #""retry":{"max_attempts":0,"multiplier":[],"non_idempotent":{}}"#
        let answer = try Fixture().send("POST", "/v1/jobs", small(",\(schedule),\(retry),\"metadata\":true"))
        let details = (answer.json["errors"]?.array ?? []).reduce(into: [String: String]()) {
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
