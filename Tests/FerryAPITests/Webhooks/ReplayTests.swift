import FerryCore
import Synchronization
import Testing

@testable import FerryAPI

@Suite("Responses to repeated requests")
struct ReplayTests {
    private let key = [(name: "Idempotency-Key", value: "k")]
    /// Valid unless the session is a background session.
    private let job =
        #"{"kind":"data","session":"s","request":{"url":"https://a.example/"},"redirects":{"policy":"reject"}}"#

    private func put(_ fixture: Fixture, _ session: String, _ tag: String? = nil) throws {
        let response = try fixture.send(
            "PUT", "/v1/sessions/s", session, tag.map { [(name: "If-Match", value: $0)] } ?? [])
        try #require([200, 201].contains(response.status), "\(response.json)")
    }

    private func isReplay(_ response: ReceivedResponse, of first: ReceivedResponse) -> Bool {
        response.status == 201 && response.header("Idempotency-Replayed") == "true"
            && response.body == first.body
    }

    @Test("a repeated submission gets the first response after its session's configuration has changed")
    func sessions() throws {
        let fixture = Fixture()
        let send = { (path: String, body: String) in try fixture.send("POST", path, body, key) }
        let bodies = [
            ("/v1/jobs", job), ("/v1/jobs/batch", #"{"jobs":[\#(job)]}"#),
            ("/v1/schedules", #"{"interval":60,"job":\#(job)}"#),
        ]
        try put(fixture, #"{"priority":0.25}"#)
        let first = try bodies.map { try send($0.0, $0.1) }
        #expect(first.map(\.status) == [201, 201, 201])
        #expect(first[0].json["schedule"]?["priority"]?.double == 0.25)
        try put(fixture, #"{"priority":0.75}"#, "\"r1\"")
        #expect(isReplay(try send("/v1/jobs", job), of: first[0]))
        try put(fixture, #"{"kind":"background"}"#, "\"r2\"")
        for (index, (path, body)) in bodies.enumerated() {
            #expect(isReplay(try send(path, body), of: first[index]), "\(path)")
            #expect(try fixture.send("POST", path, body, [("Idempotency-Key", "other")]).status == 422)
        }
        let other = try send("/v1/jobs", job.replacing("a.example", with: "b.example"))
        #expect(other.code == "idempotency_key_reused")
        let id = try #require(first[0].json["id"]?.string.flatMap { JobID($0) })
        fixture.store.finish(id, .succeeded)
        let waited = try fixture.send("POST", "/v1/jobs", job, key + [("Prefer", "wait=30")])
        #expect(waited.status == 201 && waited.header("Preference-Applied") == "wait=30")
        #expect(waited.json["id"] == .string("\(id)") && waited.json["state"] == .string("succeeded"))
        #expect(try fixture.send("DELETE", "/v1/jobs/\(id)").status == 204)
        #expect(try send("/v1/jobs", job).code == "invalid_fields")
    }

    @Test("a repeated submission or retry gets the first response after the job was edited")
    func changed() throws {
        let fixture = Fixture()
        let first = try fixture.send("POST", "/v1/jobs", job, key)
        let id = try #require(first.json["id"]?.string.flatMap { JobID($0) })
        let patch = #"{"description":"d","schedule":{"priority":0.75}}"#
        #expect(try fixture.send("PATCH", "/v1/jobs/\(id)", patch).status == 200)
        #expect(isReplay(try fixture.send("POST", "/v1/jobs", job, key), of: first))
        fixture.store.finish(id, .failed)
        let path = "/v1/jobs/\(id)/retry"
        let retry = try fixture.send("POST", path, key)
        let retried = try #require(retry.json["id"]?.string)
        let other = #"{"description":"e"}"#
        #expect(try fixture.send("PATCH", "/v1/jobs/\(retried)", other).status == 200)
        #expect(isReplay(try fixture.send("POST", path, key), of: retry))
    }

    @Test("a repeated submission gets the first response after an endpoint has asked for an acknowledgement")
    func acknowledgement() throws {
        let fixture = Fixture()
        try put(fixture, "{}")
        let first = try fixture.send("POST", "/v1/jobs", job, key)
        let id = try #require(first.json["id"]?.string.flatMap { JobID($0) })
        var rules = AcknowledgementRules()
        rules.endpoint = WebhookID(high: 1, low: 1)
        let asked = rules.encode()
        fixture.store.finish(id, .succeeded) {
            $0.storedSpec = StoredSpec($0.storedSpec.json, endpointAcknowledgement: asked)
        }
        let shown = try fixture.send("GET", "/v1/jobs/\(id)")
        #expect(shown.json["acknowledgement"]?["endpoint"]?.string == "\(WebhookID(high: 1, low: 1))")
        // The session has changed: only the row has the accepted job. It is valid first, then not.
        try put(fixture, #"{"priority":0.75}"#, "\"r1\"")
        #expect(isReplay(try fixture.send("POST", "/v1/jobs", job, key), of: first))
        try put(fixture, #"{"kind":"background"}"#, "\"r2\"")
        #expect(isReplay(try fixture.send("POST", "/v1/jobs", job, key), of: first))
    }

    @Test("each response to a repeated submission shows that a discretionary job waits")
    func discretionary() throws {
        let fixture = Fixture()
        try put(fixture, #"{"discretionary":true}"#)
        let moment = Timestamp(microseconds: 9_000_000)
        let first = try fixture.send("POST", "/v1/jobs", job, key)
        let id = try #require(first.json["id"]?.string.flatMap { JobID($0) })
        // A stored response has a begin time, but not the reason for it.
        let kept = Submission.Accepted.Job(
            id: id, state: .waiting, waitingFor: .beginDate, createdAt: Timestamp(microseconds: 1_000_000),
            startedAt: nil, node: nil, nextAttemptAt: moment)
        fixture.store.state.withLock { state in
            for name in state.idempotency.keys { state.idempotency[name]?.jobs = [kept] }
        }
        let again = try fixture.send("POST", "/v1/jobs", job, key)
        #expect(again.json["waiting_for"]?.string == "discretionary")
        #expect(again.json["next_attempt_at"]?.string != nil)
        try put(fixture, #"{"kind":"background"}"#, "\"r1\"")
        let late = try fixture.send("POST", "/v1/jobs", job, key)
        #expect(isReplay(late, of: again))
    }

    @Test(
        "a repeated creation of an endpoint gets the first response after endpoint or policy have changed"
    )
    func webhook() throws {
        let networks = ["127.0.0.0/8"].compactMap { IPNetwork(cidr: $0) }
        let fixture = Fixture(egress: EgressPolicy(allowing: networks))
        let body = #"{"url":"http://127.0.0.1/in","description":"d","enabled":false}"#
        let send = { (fixture: Fixture) in try fixture.send("POST", "/v1/webhooks", body, key) }
        let first = try send(fixture)
        #expect(first.status == 201 && first.header("ETag") == "\"r1\"")
        let path = try #require(first.header("Location"))
        #expect(isReplay(try send(fixture), of: first))
        #expect(try fixture.send("PATCH", path, #"{"description":"e","enabled":true}"#).status == 200)
        #expect(try fixture.send("POST", path + "/rotate_secret", "{}").status == 200)
        let again = try send(fixture)
        #expect(isReplay(again, of: first) && again.header("ETag") == "\"r1\"")
        #expect(again.header("Location") == path)
        #expect(try fixture.send("DELETE", path).status == 204)
        #expect(isReplay(try send(fixture), of: first))
        #expect(try fixture.send("GET", path).status == 404)
        // The same store with another egress policy.
        let strict = Fixture(store: fixture.store)
        #expect(isReplay(try send(strict), of: first))
        let other = try strict.send("POST", "/v1/webhooks", body, [("Idempotency-Key", "other")])
        #expect(other.status == 422)
        let reused = try strict.send("POST", "/v1/webhooks", #"{"url":"http://127.0.0.1/"}"#, key)
        #expect(reused.code == "idempotency_key_reused")
    }

    @Test("a repeated retry gets the first response after the first job was deleted")
    func retry() throws {
        let fixture = Fixture()
        let id = try fixture.submit()
        fixture.store.finish(id, .failed)
        let path = "/v1/jobs/\(id)/retry"
        let first = try fixture.send("POST", path, key)
        #expect(first.status == 201)
        #expect(isReplay(try fixture.send("POST", path, key), of: first))
        #expect(try fixture.send("DELETE", "/v1/jobs/\(id)").status == 204)
        #expect(isReplay(try fixture.send("POST", path, key), of: first))
        #expect(try fixture.send("POST", path, [("Idempotency-Key", "other")]).status == 404)
    }

    @Test("a repeated submission gets the first response after the job was deleted")
    func deleted() throws {
        let fixture = Fixture()
        let first = try fixture.send("POST", "/v1/jobs", small(), key)
        let id = try #require(first.json["id"]?.string.flatMap { JobID($0) })
        fixture.store.finish(id, .succeeded)
        #expect(try fixture.send("DELETE", "/v1/jobs/\(id)").status == 204)
        #expect(isReplay(try fixture.send("POST", "/v1/jobs", small(), key), of: first))
    }
}
