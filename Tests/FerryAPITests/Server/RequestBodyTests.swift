import FerryCore
import Synchronization
import Testing

@testable import FerryAPI

@Suite("Request bodies")
struct RequestBodyTests {
    private let fixture = Fixture()

    private var id: String { "\(JobID(high: 1, low: 1))" }

    /// Returns the path of a route with values for its parameters.
    private func path(_ route: Route) -> String {
        let id =
            switch route.operation {
            case .rotateSecret, .testWebhook, .replayDeliveries, .editWebhook: "\(WebhookID(high: 1, low: 1))"
            case .replaceSchedule, .runSchedule, .pauseSchedule, .resumeSchedule:
                "\(ScheduleID(high: 1, low: 1))"
            case .redeliver: "\(DeliveryID(high: 1, low: 1))"
            case .drainNode, .resumeNode: "\(NodeID(high: 1, low: 1))"
            case .putSession, .invalidateSession: "s"
            default: self.id
            }
        return route.pattern.replacing("{id}", with: id).replacing("{host}", with: "a.example")
            .replacing("{tenant}", with: "acme").replacing("{credential}", with: "c")
    }

    @Test("a body with a Content-Encoding is 415 on every route that reads a body, before it is read")
    func codings() throws {
        for route in routes where route.body != .none {
            let response = try fixture.send(
                route.method, path(route), "{}", [(name: "Content-Encoding", value: "gzip")])
            #expect(response.status == 415 && response.code == "unsupported_media_type", "\(route.pattern)")
            #expect(response.header("Accept-Encoding") == "identity")
            let document = route.operation.description
            #expect(document.problems.contains(415), "\(route.pattern) does not document it")
        }
        #expect(try submit([("Content-Encoding", "identity")]).status == 201)
        #expect(try submit([("Content-Encoding", "identity, br")]).status == 415)
        let large = String(repeating: " ", count: 20_000)
        let response = try fixture.send("POST", "/v1/jobs", large, [(name: "Content-Encoding", value: "br")])
        #expect(response.status == 415 && fixture.store.state.withLock { $0.jobs.count } == 1)
    }

    private func submit(_ headers: [(name: String, value: String)]) throws -> ReceivedResponse {
        try fixture.send("POST", "/v1/jobs", small(), headers)
    }

    @Test(
        "the parameter charset must be absent or utf-8",
        arguments: [
            ("application/json", 201), ("application/json; charset=utf-8", 201),
            ("Application/JSON;charset=\"UTF-8\"", 201), ("application/json; x=y", 201),
            ("application/json; charset=utf-16", 415), ("application/json;charset=iso-8859-1", 415),
            ("application/jsonp", 415),
        ])
    func charsets(_ type: String, _ status: Int) throws {
        let response = try submit([("Content-Type", type)])
        #expect(response.status == status, "\(type)")
        if type.contains("utf-16") { #expect(response.json["detail"]?.string?.contains("utf-16") == true) }
    }

    @Test(
        "three media types are accepted for lines of JSON",
        arguments: ["x-ndjson", "ndjson", "jsonl", "jsonl; charset=utf-8"])
    func lines(_ subtype: String) throws {
        let response = try fixture.send(
            "POST", "/v1/jobs/batch", "\(small())\n\(small())\n", [("Content-Type", "application/\(subtype)")]
        )
        #expect(response.status == 201 && response.json["data"]?.array?.count == 2)
    }

    @Test("a missing body is 400, whatever the Content-Type")
    func missing() throws {
        let needed = routes.filter { $0.operation.description.body?.isRequired == true }
        #expect(needed.count > 10)
        for route in needed {
            for headers in [[], [(name: "Content-Type", value: "application/json")]] {
                let response = try fixture.send(route.method, path(route), nil, headers)
                #expect(
                    response.status == 400 && response.code == "bad_json",
                    "\(route.pattern): \(response.json)")
                #expect(
                    response.json["detail"]?.string?.contains("needs a body") == true, "\(route.pattern)")
            }
        }
    }
}
