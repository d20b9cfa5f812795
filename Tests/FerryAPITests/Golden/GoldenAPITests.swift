import FerryCore
import Foundation
import TestGolden
import Testing

@testable import FerryAPI

@Suite("Golden files of the API")
struct GoldenAPITests {
    @Test("the OpenAPI document is as recorded")
    func document() throws {
        let text = GoldenFile.sortedText(try JSON.parse(openAPIDocument)) + "\n"
        for difference in try GoldenFile.lineDifferences("openapi.json", from: text) {
            Issue.record("\(difference)")
        }
    }

    @Test("a request with a body gets the recorded response")
    func requests() throws {
        let golden = try GoldenFile("api.json")
        let found = try golden.cases.map {
            GoldenCase($0.name, given: $0.given, found: try Self.respond(to: $0))
        }
        for difference in try golden.differences(from: found) { Issue.record("api.json: \(difference)") }
    }

    // MARK: Adapter

    /// Sends the request of a case to a new service, which has one object of each kind.
    private static func respond(to item: GoldenCase) throws -> [JSON.Member] {
        let fixture = Fixture()
        let context = try #require(item["context"])
        let method = try #require(context["method"]?.string)
        let path = try path(try #require(context["path"]?.string), fixture)
        let body = item["input"].map { GoldenFile.text($0) } ?? context["text"]?.string
        let type = context["type"]?.string ?? "application/json"
        let response = try fixture.send(method, path, body, [("Content-Type", type)])
        let shown = try JSON.parse(Array(normalised(GoldenFile.text(response.json)).utf8))
        let isSuccess = (200..<300).contains(response.status)
        // How a job is shown is recorded elsewhere.
        let isJob = path.contains("/jobs") || path.contains("/schedules")
        return [.init("status", .integer(Int64(response.status)))]
            + (isSuccess && isJob ? [] : [.init("response", shown)])
    }

    /// Returns the path with the identifier of an object that exists.
    private static func path(_ pattern: String, _ fixture: Fixture) throws -> String {
        guard pattern.contains("{id}") else { return pattern }
        let bodies = [
            ("/v1/jobs", small()), ("/v1/webhooks", #"{"url":"https://h.example/"}"#),
            ("/v1/schedules", #"{"interval":60,"job":\#(small())}"#),
        ]
        guard let (list, body) = bodies.first(where: { pattern.hasPrefix($0.0) }) else {
            return pattern.replacing("{id}", with: "nod_00000000000000000000000001")
        }
        let made = try fixture.send("POST", list, body)
        return pattern.replacing("{id}", with: try #require(made.json["id"]?.string))
    }

    /// Replaces random identifiers and keys.
    private static func normalised(_ text: String) -> String {
        text.replacing(/\b([a-z]{3})_[0-9a-hjkmnp-tv-z]{26}\b/) { "\($0.1)_00000000000000000000000000" }
            .replacing(/"(key|secret|public_key)":"[^"]*"/) { "\"\($0.1)\":\"random\"" }
    }
}
