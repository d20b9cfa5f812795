import FerryCore
import Testing

@testable import FerryAPI

@Suite("A repeated request gets its first answer again")
struct ReplayTests {
    private let key = [(name: "Idempotency-Key", value: "k")]
    /// Right until the session is a background session.
    private let job =
        #"{"kind":"data","session":"s","request":{"url":"https://a.example/"},"redirects":{"policy":"reject"}}"#

    private func put(_ fixture: Fixture, _ session: String, _ tag: String? = nil) throws {
        let answer = try fixture.send(
            "PUT", "/v1/sessions/s", session, tag.map { [(name: "If-Match", value: $0)] } ?? [])
        try #require([200, 201].contains(answer.status), "\(answer.json)")
    }

    private func isReplay(_ answer: Answer, of first: Answer) -> Bool {
        answer.status == 201 && answer.header("Idempotency-Replayed") == "true" && answer.body == first.body
    }

    @Test("whatever its session says by now")
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

    @Test("also a retry whose job was deleted since")
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

    @Test("also of a job that was deleted since, as far as the request tells of it")
    func deleted() throws {
        let fixture = Fixture()
        let first = try fixture.send("POST", "/v1/jobs", small(), key)
        let id = try #require(first.json["id"]?.string.flatMap { JobID($0) })
        fixture.store.finish(id, .succeeded)
        #expect(try fixture.send("DELETE", "/v1/jobs/\(id)").status == 204)
        #expect(isReplay(try fixture.send("POST", "/v1/jobs", small(), key), of: first))
    }
}
