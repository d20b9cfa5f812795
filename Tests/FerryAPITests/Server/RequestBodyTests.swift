import FerryCore
import Synchronization
import Testing

@testable import FerryAPI

@Suite("What a request's body may be")
struct RequestBodyTests {
    private let fixture = Fixture()

    private var id: String { "\(JobID(high: 1, low: 1))" }

    /// A route with its parameters filled in.
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
    }

    @Test("a body with a Content-Encoding is refused on every route that reads one, before it is read")
    func codings() throws {
        for route in routes where route.body != .none {
            let answer = try fixture.send(
                route.method, path(route), "{}", [(name: "Content-Encoding", value: "gzip")])
            #expect(answer.status == 415 && answer.code == "unsupported_media_type", "\(route.pattern)")
            #expect(answer.header("Accept-Encoding") == "identity")
            let document = route.operation.description
            #expect(document.problems.contains(415), "\(route.pattern) does not document it")
        }
        #expect(try submit([("Content-Encoding", "identity")]).status == 201)
        #expect(try submit([("Content-Encoding", "identity, br")]).status == 415)
        let large = String(repeating: " ", count: 20_000)
        let answer = try fixture.send("POST", "/v1/jobs", large, [(name: "Content-Encoding", value: "br")])
        #expect(answer.status == 415 && fixture.store.state.withLock { $0.jobs.count } == 1)
    }

    private func submit(_ headers: [(name: String, value: String)]) throws -> Answer {
        try fixture.send("POST", "/v1/jobs", small(), headers)
    }

    @Test(
        "text is UTF-8, and says so or nothing",
        arguments: [
            ("application/json", 201), ("application/json; charset=utf-8", 201),
            ("Application/JSON;charset=\"UTF-8\"", 201), ("application/json; x=y", 201),
            ("application/json; charset=utf-16", 415), ("application/json;charset=iso-8859-1", 415),
            ("application/jsonp", 415),
        ])
    func charsets(_ type: String, _ status: Int) throws {
        let answer = try submit([("Content-Type", type)])
        #expect(answer.status == status, "\(type)")
        if type.contains("utf-16") { #expect(answer.json["detail"]?.string?.contains("utf-16") == true) }
    }

    @Test(
        "lines of JSON go by three names", arguments: ["x-ndjson", "ndjson", "jsonl", "jsonl; charset=utf-8"])
    func lines(_ subtype: String) throws {
        let answer = try fixture.send(
            "POST", "/v1/jobs/batch", "\(small())\n\(small())\n", [("Content-Type", "application/\(subtype)")]
        )
        #expect(answer.status == 201 && answer.json["data"]?.array?.count == 2)
    }

    @Test("who sends nothing where a body is needed is told so, whatever its type")
    func missing() throws {
        let needed = routes.filter { $0.operation.description.isBodyRequired }
        #expect(needed.count > 10)
        for route in needed {
            for headers in [[], [(name: "Content-Type", value: "application/json")]] {
                let answer = try fixture.send(route.method, path(route), nil, headers)
                #expect(answer.status == 400 && answer.code == "bad_json", "\(route.pattern): \(answer.json)")
                #expect(
                    answer.json["detail"]?.string?.contains("needs a body") == true, "\(route.pattern)")
            }
        }
    }
}
